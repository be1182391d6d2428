/* netem.c - a bad line: what passes between a port of the hosts' bridge and the bridge is late, and some is lost.
 *
 *     netem PORT MILLISECONDS PERCENT
 *
 * The port is taken off the bridge, a pair of interfaces (sky, ground) is put between, and this program carries packets
 * from one to the other until it is ended. Kernels can do that too, but not all that tests run on. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LARGEST = 66000, MOST = 4096 }; /* bytes of a packet, segments not yet cut apart; packets under way */

typedef struct packet {
    int64_t due; /* ns */
    int to;
    size_t bytes;
    char *data;
} packet;

/* In the order in which they are due, since all are equally late. */
static packet queue[MOST];
static size_t first, count;

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int open_interface(const char *name)
{
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL)), yes = 1;
    struct sockaddr_ll where = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(name)};
    /* With this, checksums and segments that the sender has left to the hardware stay so. */
    if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &yes, sizeof yes) != 0 ||
        bind(fd, (struct sockaddr *)&where, sizeof where) != 0) {
        perror(name);
        exit(1);
    }
    return fd;
}

static void take(int from, int to, int64_t delay, int loss)
{
    static char data[LARGEST];
    struct sockaddr_ll whence;
    socklen_t size = sizeof whence;
    ssize_t got = recvfrom(from, data, sizeof data, 0, (struct sockaddr *)&whence, &size);
    if (got <= 0 || whence.sll_pkttype == PACKET_OUTGOING || rand() % 100 < loss || count == MOST) return;
    packet *p = &queue[(first + count) % MOST];
    *p = (packet){.due = now() + delay, .to = to, .bytes = (size_t)got, .data = malloc((size_t)got)};
    if (!p->data) return;
    memcpy(p->data, data, p->bytes);
    count++;
}

static void deliver(void)
{
    for (; count && queue[first].due <= now(); first = (first + 1) % MOST, count--) {
        packet *p = &queue[first];
        if (write(p->to, p->data, p->bytes) < 0 && errno != ENOBUFS && errno != EAGAIN) perror("netem");
        free(p->data);
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) return 2;
    char line[256];
    snprintf(line, sizeof line,
             "ip link add sky type veth peer name ground && ip link set %s nomaster && ip link set sky up && "
             "ip link set ground master bridge up",
             argv[1]);
    if (system(line) != 0) return 1;
    int port = open_interface(argv[1]), sky = open_interface("sky"), loss = atoi(argv[3]);
    int64_t delay = (int64_t)atoi(argv[2]) * 1000000;
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        struct pollfd files[2] = {{.fd = port, .events = POLLIN}, {.fd = sky, .events = POLLIN}};
        int64_t left = count ? queue[first].due - now() : 1000000000;
        struct timespec wait = {.tv_nsec = (long)(left < 0 ? 0 : left > 999999999 ? 999999999 : left)};
        if (ppoll(files, 2, &wait, NULL) > 0) {
            if (files[0].revents) take(port, sky, delay, loss);
            if (files[1].revents) take(sky, port, delay, loss);
        }
        deliver();
    }
}
