/* The server of `narrows latency` for a small board: cc -O2 -static -Wall -Wextra -Werror -o echo echo.c; echo [PORT [PRIORITY]]
   PORT: 5207 without. PRIORITY 1 to 99: real-time class (SCHED_RR) and locked memory. Any datagram comes back as it went. A timed
   question (N A R P, version 1, t; 88 bytes or more, docs/reference/latency.md) comes back with what this end saw, ns of its even
   clock: when the kernel had it (zero: it does not say), since when this program was free for it, when it read and answered it. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

static uint64_t ns(struct timespec t) { return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec; }
static uint64_t now(clockid_t clock) {
    struct timespec t;
    return clock_gettime(clock, &t), ns(t);
}

static void put(unsigned char *to, uint64_t number, int bytes) {
    while (bytes--) to[bytes] = (unsigned char)number, number >>= 8;
}

int main(int argc, char **argv) {
    static unsigned char packet[65536], cookie[16];
    static union { struct cmsghdr align; unsigned char bytes[256]; } control;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(argc > 1 ? (uint16_t)atoi(argv[1]) : 5207)}, from;
    struct sched_param priority = {.sched_priority = argc > 2 ? atoi(argv[2]) : 0};
    struct sockaddr *own = (struct sockaddr *)&at;
    socklen_t size = sizeof at;
    int on = 1, sock = socket(AF_INET, SOCK_DGRAM, 0);
    if (sock < 0 || bind(sock, own, size) || getsockname(sock, own, &size)) return perror("echo: PORT"), 2;
    if (argc > 2 && (sched_setscheduler(0, SCHED_RR, &priority) || mlockall(MCL_CURRENT))) return perror("echo: PRIORITY"), 2;
    setsockopt(sock, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on), setsockopt(sock, IPPROTO_IP, IP_RECVTOS, &on, sizeof on);
    printf("echo at port %d\n", ntohs(at.sin_port)), fflush(stdout);
    for (uint64_t idle = 0, count = 0;; idle = now(CLOCK_MONOTONIC)) {
        struct iovec part = {packet, sizeof packet};
        struct msghdr message = {&from, sizeof from, &part, 1, &control, sizeof control, 0};
        struct timespec stamp = {0, 0};
        unsigned char class = 0;
        ssize_t length = recvmsg(sock, &message, 0);
        uint64_t read = now(CLOCK_MONOTONIC), ahead = now(CLOCK_REALTIME) - read;
        /* Services below 1024, and another echo, might answer an answer for ever. */
        if (length < 0 || ntohs(from.sin_port) < 1024 || from.sin_port == at.sin_port) continue;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
            if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) class = *CMSG_DATA(c);
            else if (c->cmsg_level == SOL_SOCKET && c->cmsg_len == CMSG_LEN(sizeof stamp))
                memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
        if (length >= 88 && !memcmp(packet, "NARP\1t", 6)) {
            uint64_t came = stamp.tv_sec ? ns(stamp) - ahead : 0;
            if (memcmp(cookie, packet + 8, 16)) memcpy(cookie, packet + 8, 16), count = 0;
            packet[5] = 's', packet[6] = class, memset(packet + 72, 0, 16);
            put(packet + 36, came, 8), put(packet + 52, ++count, 4), put(packet + 64, read, 8);
            put(packet + 56, came && came < idle ? idle : came, 8), put(packet + 44, now(CLOCK_MONOTONIC), 8);
        }
        sendto(sock, packet, (size_t)length, 0, (struct sockaddr *)&from, message.msg_namelen);
    }
}
