/* networks.c - wait for networks that have just come up.
 *
 * Linux reports an interface as running up to a second after it carries traffic. Processes that have found each other
 * over it by then would find no network in UCX, which only uses those running when it starts. */
#include "ucx.h"

#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Does the interface have a link? Unlike "running", this is reported at once. */
static bool has_carrier(int fd, const char *name)
{
    struct ethtool_value link = {.cmd = ETHTOOL_GLINK};
    struct ifreq request = {.ifr_data = (void *)&link};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    return ioctl(fd, SIOCETHTOOL, &request) == 0 && link.data;
}

static bool is_coming_up(int fd, const struct ifaddrs *one)
{
    bool up = (one->ifa_flags & IFF_UP) && !(one->ifa_flags & (IFF_RUNNING | IFF_LOOPBACK));
    int family = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;
    return up && (family == AF_INET || family == AF_INET6) && has_carrier(fd, one->ifa_name);
}

static bool any_is_coming_up(void)
{
    struct ifaddrs *all = NULL;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool any = false;
    if (fd >= 0 && getifaddrs(&all) == 0)
        for (const struct ifaddrs *one = all; one && !any; one = one->ifa_next) any = is_coming_up(fd, one);
    if (all) freeifaddrs(all);
    if (fd >= 0) close(fd);
    return any;
}

void ucx_wait_for_networks(void)
{
    enum { TIMEOUT = 5000 /* milliseconds */, PAUSE = 20000 /* microseconds */ };
    int64_t deadline = ucx_clock() + TIMEOUT;
    while (any_is_coming_up() && ucx_clock() < deadline) usleep(PAUSE);
}
