/* The server of `narrows latency` over lwIP, for a board without an operating system; it uses only the raw API of lwIP 2.
   Call echo_start(5207) after lwip_init. The board supplies echo_ns: time of a monotonic clock in ns.
   With -DECHO_TAP, it is a program for a TAP device of Linux, which Debian's liblwip-dev builds:
     cc -O2 -Wall -Wextra -Werror -DECHO_TAP $(pkg-config --cflags lwip) -o echo echo_lwip.c $(pkg-config --libs lwip)
     PRECONFIGURED_TAPIF=tap0 ./echo ADDRESS NETMASK [PORT]
   Datagrams are returned unchanged, except timed requests (88 bytes or more, docs/reference/latency.md). Their reply
   has the times at which this end read the request and sent the reply. The time of arrival is 0: lwIP has none. */
#include <stdint.h>
#include <string.h>
#include <lwip/ip.h>
#include <lwip/pbuf.h>
#include <lwip/udp.h>

uint64_t echo_ns(void);
err_t echo_start(uint16_t port);

static void put(unsigned char *to, uint64_t number, int bytes) {
    while (bytes--) to[bytes] = (unsigned char)number, number >>= 8;
}

static void timed(unsigned char *packet, uint64_t read, unsigned char class) {
    static unsigned char cookie[16];
    static uint32_t count;
    if (memcmp(cookie, packet + 8, 16)) memcpy(cookie, packet + 8, 16), count = 0;
    packet[5] = 's', packet[6] = class, memset(packet + 72, 0, 16), put(packet + 36, 0, 8);
    put(packet + 52, ++count, 4), put(packet + 64, read, 8), put(packet + 56, 0, 8), put(packet + 44, echo_ns(), 8);
}

static void received(void *unused, struct udp_pcb *own, struct pbuf *in, const ip_addr_t *from, uint16_t port) {
    uint64_t read = echo_ns();
    unsigned char class = IPH_TOS(ip4_current_header());
    /* A copy in one piece, because the buffer of a driver may be in several, and read-only. */
    struct pbuf *out = pbuf_alloc(PBUF_TRANSPORT, in->tot_len, PBUF_RAM);
    (void)unused;
    /* Services below 1024, and another echo, might reply to a reply without end. */
    if (out && port >= 1024 && port != own->local_port && pbuf_copy(out, in) == ERR_OK) {
        if (out->tot_len >= 88 && !memcmp(out->payload, "NARP\1t", 6)) timed(out->payload, read, class);
        udp_sendto(own, out, from, port);
    }
    if (out) pbuf_free(out);
    pbuf_free(in);
}

err_t echo_start(uint16_t port) {
    struct udp_pcb *own = udp_new();
    err_t wrong = own ? udp_bind(own, IP4_ADDR_ANY, port) : ERR_MEM;
    if (wrong == ERR_OK) udp_recv(own, received, 0);
    return wrong;
}

#ifdef ECHO_TAP
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <lwip/tcpip.h>
#include <netif/tapif.h>

uint64_t echo_ns(void) {
    struct timespec t;
    return clock_gettime(CLOCK_MONOTONIC, &t), (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv) {
    static struct netif device;
    ip4_addr_t own, mask, none = {0};
    uint16_t port = argc > 3 ? (uint16_t)atoi(argv[3]) : 5207;
    if (argc < 3 || !ip4addr_aton(argv[1], &own) || !ip4addr_aton(argv[2], &mask))
        return fprintf(stderr, "echo: ADDRESS NETMASK [PORT]\n"), 2;
    tcpip_init(0, 0), LOCK_TCPIP_CORE();
    if (!netif_add(&device, &own, &mask, &none, 0, tapif_init, tcpip_input)) return fprintf(stderr, "echo: no TAP device\n"), 2;
    netif_set_default(&device), netif_set_up(&device), netif_set_link_up(&device);
    if (echo_start(port) != ERR_OK) return fprintf(stderr, "echo: PORT\n"), 2;
    UNLOCK_TCPIP_CORE();
    printf("echo at port %d\n", port), fflush(stdout);
    for (;;) pause();
}
#endif
