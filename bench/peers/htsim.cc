// The same set-ups as bench/scale.py in htsim, to measure the CPU time of a segment there: N flows over one drop-tail
// bottleneck with a buffer of one BDP. bench/peers/run.py builds and runs this program with a copy of htsim outside the
// repository. It is not part of the build, the tests or CI.
//
//     htsim --flows=10 --mbit=1000 --rtt=20 --seconds=10
//
// The settings and their reasons:
// - The TCP of htsim has NewReno only, without SACK, timestamps, pacing or delayed ACKs; each segment is acknowledged. Its
//   initial slow-start threshold of 100 segments is raised, so that slow start ends with a loss, as in the other programs.
// - Packets have 1500 B, of which 1448 B count as payload here, because htsim does not model headers.
// - ACKs return over a delay without a queue.
// - There are no loggers.
//
// The result is the last line of the output; htsim itself prints messages about timeouts. `cpu_s` is the CPU time of the
// whole process.

#include "eventlist.h"
#include "pipe.h"
#include "queue.h"
#include "route.h"
#include "tcp.h"

#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace
{

constexpr int PACKET = 1500;

double
CpuSeconds(const rusage& u)
{
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + 1e-6 * (u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

} // namespace

int
main(int argc, char** argv)
{
    std::map<std::string, double> options{{"--flows", 1}, {"--mbit", 100}, {"--rtt", 40}, {"--seconds", 10}};
    for (int i = 1; i < argc; i++)
    {
        const std::string word = argv[i];
        const size_t equals = word.find('=');
        const auto option = options.find(word.substr(0, equals));
        if (equals == std::string::npos || option == options.end())
        {
            std::cerr << "htsim: " << word << " is unknown; write --flows=N, --mbit=N, --rtt=MS or --seconds=S\n";
            return 2;
        }
        option->second = std::atof(word.c_str() + equals + 1);
    }
    const auto flows = static_cast<size_t>(options["--flows"]);
    const double mbit = options["--mbit"];
    const double rtt = options["--rtt"];

    EventList& events = EventList::getTheEventList();
    EventList::setEndtime(timeFromSec(options["--seconds"]));
    Packet::set_packet_size(PACKET);
    const auto bdp = static_cast<mem_b>(mbit * 1e6 / 8 * rtt / 1e3);
    Queue bottleneck(speedFromMbps(mbit), bdp, events, nullptr);
    Pipe forward(timeFromMs(rtt / 2), events);
    Pipe back(timeFromMs(rtt / 2), events);
    TcpRtxTimerScanner timers(timeFromMs(10), events);

    std::mt19937 random(1);
    std::uniform_real_distribution<double> start(0, rtt);
    std::vector<std::unique_ptr<TcpSrc>> sources;
    std::vector<std::unique_ptr<TcpSink>> sinks;
    for (size_t i = 0; i < flows; i++)
    {
        sources.push_back(std::make_unique<TcpSrc>(nullptr, nullptr, events));
        sinks.push_back(std::make_unique<TcpSink>());
        TcpSrc& source = *sources.back();
        TcpSink& sink = *sinks.back();
        source.set_ssthresh(0xffffffff);
        timers.registerTcp(source);
        // htsim keeps references to routes for the whole run.
        auto* out = new Route();
        out->push_back(&bottleneck);
        out->push_back(&forward);
        out->push_back(&sink);
        auto* in = new Route();
        in->push_back(&back);
        in->push_back(&source);
        source.connect(*out, *in, sink, timeFromMs(start(random)));
    }
    while (EventList::doNextEvent())
    {
    }

    uint64_t bytes = 0;
    for (const auto& sink : sinks)
    {
        bytes += sink->_cumulative_ack;
    }
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    std::cout << "{\"segments\": " << bytes / PACKET << ", \"drops\": " << bottleneck.num_drops()
              << ", \"cpu_s\": " << CpuSeconds(usage) << ", \"rss_bytes\": " << usage.ru_maxrss * 1024 << "}\n";
    return 0;
}
