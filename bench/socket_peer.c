/* socket_peer.c - the throughput of plain sockets between two hosts: socket_peer (- | ADDRESS) BYTES SECONDS
 *
 * One listens ("-"), the other connects. In every round each sends and receives this many bytes, both ways at once, as
 * in an all-reduce between two hosts. The one that listens prints the seconds of the best round. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 29400, CHUNK = 256 << 10 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int meet(const char *address)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int one = 1, end = socket(AF_INET, SOCK_STREAM, 0);
    if (strcmp(address, "-") == 0) {
        setsockopt(end, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(end, (struct sockaddr *)&at, sizeof at) || listen(end, 1)) return -1;
        end = accept(end, NULL, NULL);
    } else {
        inet_pton(AF_INET, address, &at.sin_addr);
        for (int i = 0; i < 500 && connect(end, (struct sockaddr *)&at, sizeof at) != 0; i++) usleep(20000);
    }
    setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(end, F_SETFL, O_NONBLOCK);
    return end;
}

/* Bytes transferred by one call; negative: the connection has ended. */
static long carried(ssize_t bytes)
{
    if (bytes > 0) return (long)bytes;
    return bytes < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

/* Both ways at once: send all of `out` while receiving `in`. */
static int round_trip(int end, char *out, char *in, long bytes)
{
    for (long sent = 0, received = 0; sent < bytes || received < bytes;) {
        long chunk = bytes - sent < CHUNK ? bytes - sent : CHUNK, moved = 0;
        long s = chunk ? carried(send(end, out + sent, (size_t)chunk, MSG_NOSIGNAL)) : 0;
        chunk = bytes - received < CHUNK ? bytes - received : CHUNK;
        long r = chunk ? carried(recv(end, in + received, (size_t)chunk, 0)) : 0;
        if (s < 0 || r < 0) return -1;
        sent += s, received += r, moved = s + r;
        short wanted = (short)((sent < bytes ? POLLOUT : 0) | (received < bytes ? POLLIN : 0));
        if (!moved && wanted) poll(&(struct pollfd){.fd = end, .events = wanted}, 1, 1000);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4) return 2;
    long bytes = atol(argv[2]);
    double seconds = atof(argv[3]), best = 1e30;
    int end = meet(argv[1]), leads = strcmp(argv[1], "-") == 0;
    char *out = calloc(1, (size_t)bytes), *in = calloc(1, (size_t)bytes), more = 1, heard = 1;
    if (end < 0 || !out || !in) return 1;
    double begin = now();
    for (int round = 0; more && heard; round++) {
        double t = now();
        if (round_trip(end, out, in, bytes)) return 1;
        t = now() - t;
        if (round > 0 && t < best) best = t;
        more = !leads || round < 3 || now() - begin < seconds;
        if (round_trip(end, &more, &heard, 1)) return 1;
    }
    if (leads) printf("%.9g\n", best);
    free(out);
    free(in);
    close(end);
    return 0;
}
