// The same set-ups as bench/scale.py in ns-3, to measure the CPU time of a segment there: N flows of TcpCubic or TcpBbr
// over one drop-tail bottleneck with a buffer of one BDP. bench/peers/run.py builds and runs this program. It is not part
// of the build, the tests or CI.
//
//     ns3 --cc=cubic --flows=10 --mbit=1000 --rtt=20 --hosts=0 --seconds=10
//
// The settings and their reasons:
// - BulkSend, SACK, timestamps, segments of 1448 B, an ACK for every second segment, an initial window of 10 and a minimum
//   retransmission timeout of 200 ms, as the hosts of narrows have them after Linux. The application writes 1448 B at a
//   time, so that ns-3 neither splits nor merges its packets to make a segment.
// - There is no queue discipline above the device: the drop-tail queue of the device, counted in bytes, is the buffer.
// - With `hosts` 0 the flows end on the two nodes of the bottleneck, and no packet is forwarded. This is the cheapest
//   set-up, and the one of narrows. With `hosts` H there are H nodes on each side, connected through two routers by links
//   without delay that are ten times as fast. A node of ns-3 searches the socket of a packet linearly; with 10 000 flows
//   on one node this search would take nearly all of the time.
// - Routers compute the next hop from the address in one step, because ns-3 searches routing tables linearly as well.
//
// `cpu_s` is the CPU time of the whole process until the end of the simulation. `run_s` is that of Simulator::Run alone,
// without the construction of the nodes.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

#include <algorithm>
#include <iostream>
#include <sys/resource.h>
#include <vector>

using namespace ns3;

namespace
{

constexpr uint32_t SEGMENT = 1448;
constexpr uint32_t LEFT = 0x0a010000;  // 10.1.0.0/16: senders, four addresses for each link
constexpr uint32_t RIGHT = 0x0a020000; // 10.2.0.0/16: receivers
constexpr uint32_t SIDE = 0xffff0000;

double
CpuSeconds()
{
    rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + 1e-6 * (u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

// Routing by the number in the address: packets to a host of this side go to it, all others to the other router.
class ByNumber : public Ipv4RoutingProtocol
{
  public:
    ByNumber(uint32_t side, Ptr<NetDevice> across) : m_side(side), m_across(Way(across)) {}

    void Add(Ptr<NetDevice> host) { m_hosts.push_back(Way(host)); }

    Ptr<Ipv4Route> RouteOutput(Ptr<Packet>, const Ipv4Header&, Ptr<NetDevice>, Socket::SocketErrno& error) override
    {
        error = Socket::ERROR_NOROUTETOHOST;
        return nullptr;
    }

    bool RouteInput(Ptr<const Packet> packet, const Ipv4Header& header, Ptr<const NetDevice>, UnicastForwardCallback forward,
                    MulticastForwardCallback, LocalDeliverCallback, ErrorCallback) override
    {
        const uint32_t to = header.GetDestination().Get();
        forward((to & SIDE) == m_side ? m_hosts.at((to & ~SIDE) >> 2) : m_across, packet, header);
        return true;
    }

    void NotifyInterfaceUp(uint32_t) override {}
    void NotifyInterfaceDown(uint32_t) override {}
    void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void SetIpv4(Ptr<Ipv4>) override {}
    void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override {}

  private:
    static Ptr<Ipv4Route> Way(Ptr<NetDevice> device)
    {
        Ptr<Ipv4Route> way = Create<Ipv4Route>();
        way->SetOutputDevice(device);
        return way;
    }

    uint32_t m_side;
    Ptr<Ipv4Route> m_across;
    std::vector<Ptr<Ipv4Route>> m_hosts;
};

// Creates a link whose device queues hold `queue` bytes.
NetDeviceContainer
Link(Ptr<Node> a, Ptr<Node> b, double bits, Time delay, uint64_t queue)
{
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(static_cast<uint64_t>(bits))));
    link.SetChannelAttribute("Delay", TimeValue(delay));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::BYTES, queue)));
    link.DisableFlowControl(); // otherwise the assignment of addresses would install a queue discipline
    return link.Install(a, b);
}

// Connects all hosts to one router. Returns the address of each host, by its number.
std::vector<Ipv4Address>
Attach(NodeContainer& hosts, Ptr<Node> router, uint32_t side, Ptr<NetDevice> across, double bits)
{
    Ptr<ByNumber> ways = Create<ByNumber>(side, across);
    Ipv4AddressHelper addresses(Ipv4Address(side), "255.255.255.252");
    std::vector<Ipv4Address> known;
    for (uint32_t i = 0; i < hosts.GetN(); i++)
    {
        NetDeviceContainer ends = Link(hosts.Get(i), router, bits, Time(0), 1u << 30);
        Ipv4InterfaceContainer both = addresses.Assign(ends);
        addresses.NewNetwork();
        Ptr<Ipv4> ip = hosts.Get(i)->GetObject<Ipv4>();
        const uint32_t interface = ip->GetInterfaceForDevice(ends.Get(0));
        Ipv4StaticRoutingHelper().GetStaticRouting(ip)->SetDefaultRoute(both.GetAddress(1), interface);
        ways->Add(ends.Get(1));
        known.push_back(both.GetAddress(0));
    }
    router->GetObject<Ipv4>()->SetRoutingProtocol(ways);
    return known;
}

} // namespace

int
main(int argc, char** argv)
{
    std::string cc = "cubic";
    uint32_t flows = 1;
    uint32_t hosts = 0;
    double mbit = 100;
    double rtt = 40;
    double seconds = 10;
    CommandLine command;
    command.AddValue("cc", "cubic or bbr", cc);
    command.AddValue("flows", "how many", flows);
    command.AddValue("mbit", "the bottleneck's rate", mbit);
    command.AddValue("rtt", "milliseconds", rtt);
    command.AddValue("hosts", "nodes on each side, or 0: flows end at the bottleneck's own", hosts);
    command.AddValue("seconds", "simulated", seconds);
    command.Parse(argc, argv);
    if ((cc != "cubic" && cc != "bbr") || hosts > 16000)
    {
        std::cerr << "ns3: --cc is cubic or bbr, --hosts at most 16000\n";
        return 2;
    }

    const auto bdp = static_cast<uint64_t>(mbit * 1e6 / 8 * rtt / 1e3);
    // Size of each socket buffer in bytes: 4 BDP for one flow, else 8 BDP divided by the flows, and at least 1 MiB.
    const uint64_t room = std::max<uint64_t>(1 << 20, 4 * bdp * std::min<uint64_t>(flows, 2) / flows);
    const TypeId law = cc == "bbr" ? TcpBbr::GetTypeId() : TcpCubic::GetTypeId();
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(law));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(room));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(room));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));

    NodeContainer middle(2);
    NodeContainer senders(hosts);
    NodeContainer receivers(hosts);
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    for (auto nodes : {&middle, &senders, &receivers})
    {
        stack.Install(*nodes);
    }
    NetDeviceContainer bottleneck = Link(middle.Get(0), middle.Get(1), mbit * 1e6, MilliSeconds(rtt) / 2, bdp);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    std::vector<Ipv4Address> to{addresses.Assign(bottleneck).GetAddress(1)};
    if (hosts > 0)
    {
        Attach(senders, middle.Get(0), LEFT, bottleneck.Get(0), 10e6 * mbit);
        to = Attach(receivers, middle.Get(1), RIGHT, bottleneck.Get(1), 10e6 * mbit);
    }
    else
    {
        senders.Add(middle.Get(0));
        receivers.Add(middle.Get(1));
    }

    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9));
    ApplicationContainer sinks = sink.Install(receivers);
    Ptr<UniformRandomVariable> start = CreateObject<UniformRandomVariable>();
    for (uint32_t i = 0; i < flows; i++)
    {
        const uint32_t host = i % senders.GetN();
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(to[host], 9));
        bulk.SetAttribute("SendSize", UintegerValue(SEGMENT));
        bulk.Install(senders.Get(host)).Start(MilliSeconds(1) * start->GetValue(0, rtt));
    }

    const double built = CpuSeconds();
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    const double cpu = CpuSeconds();

    uint64_t bytes = 0;
    for (uint32_t i = 0; i < sinks.GetN(); i++)
    {
        bytes += sinks.Get(i)->GetObject<PacketSink>()->GetTotalRx();
    }
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    Ptr<PointToPointNetDevice> device = bottleneck.Get(0)->GetObject<PointToPointNetDevice>();
    std::cout << "{\"segments\": " << bytes / SEGMENT << ", \"drops\": " << device->GetQueue()->GetTotalDroppedPackets()
              << ", \"events\": " << Simulator::GetEventCount() << ", \"cpu_s\": " << cpu << ", \"run_s\": " << cpu - built
              << ", \"rss_bytes\": " << usage.ru_maxrss * 1024 << "}\n";
    Simulator::Destroy();
    return 0;
}
