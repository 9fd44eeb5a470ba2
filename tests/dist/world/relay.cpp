#include "relay.h"

#include <cstdio>

#ifdef __linux__

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <vector>

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace etna {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr unsigned kLongestLife = 1800;  ///< seconds
constexpr std::size_t kLargestFrame = 70'000;

std::int64_t now_in_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * kSecond + now.tv_nsec;
}

/// A socket for the raw frames of a device, each behind a virtio_net_hdr, which says what the kernel has not done yet:
/// checksums, and division into segments. -1, and errno.
int open_device(const char* name) {
  const int device = ::socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
  if (device < 0) return -1;
  const int on = 1, buffer = 16 << 20;
  sockaddr_ll at{};
  at.sll_family = AF_PACKET;
  at.sll_protocol = htons(ETH_P_ALL);
  at.sll_ifindex = static_cast<int>(::if_nametoindex(name));
  ::setsockopt(device, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer);
  if (at.sll_ifindex != 0 && ::setsockopt(device, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) == 0 &&
      ::bind(device, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0)
    return device;
  ::close(device);
  return -1;
}

struct Frame {
  std::int64_t due = 0;
  std::vector<char> bytes;
};

/// Ends when a device does.
void forward(const int (&devices)[2], std::int64_t delay) {
  std::deque<Frame> waiting[2];  ///< for the other device
  std::vector<char> bytes(kLargestFrame);
  for (;;) {
    std::int64_t wait = kSecond;
    for (int i = 0; i < 2; ++i) {
      for (; !waiting[i].empty() && waiting[i].front().due <= now_in_ns(); waiting[i].pop_front()) {
        const std::vector<char>& frame = waiting[i].front().bytes;
        // A frame that the kernel does not take is lost, as on a cable.
        if (::send(devices[1 - i], frame.data(), frame.size(), 0) < 0 && (errno == ENETDOWN || errno == ENXIO)) return;
      }
      if (!waiting[i].empty()) wait = std::min(wait, std::max<std::int64_t>(waiting[i].front().due - now_in_ns(), 0));
    }
    pollfd ready[2] = {{devices[0], POLLIN, 0}, {devices[1], POLLIN, 0}};
    const timespec limit{static_cast<time_t>(wait / kSecond), static_cast<long>(wait % kSecond)};
    if (::ppoll(ready, 2, &limit, nullptr) < 0 && errno != EINTR) return;
    for (int i = 0; i < 2; ++i) {
      sockaddr_ll from{};
      for (;;) {
        socklen_t size = sizeof from;
        const ssize_t got =
            ::recvfrom(devices[i], bytes.data(), bytes.size(), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&from), &size);
        if (got < 0 && errno != EAGAIN && errno != EINTR) return;
        if (got <= 0) break;
        if (from.sll_pkttype == PACKET_OUTGOING) continue;
        waiting[i].push_back({now_in_ns() + delay, {bytes.begin(), bytes.begin() + got}});
      }
    }
  }
}

}  // namespace

int relay(int count, char** arguments) {
  const long microseconds = count == 3 ? std::strtol(arguments[2], nullptr, 10) : 0;
  if (microseconds <= 0) {
    std::fprintf(stderr, "usage: dist_world --relay FIRST SECOND MICROSECONDS\n");
    return 2;
  }
  const int devices[2] = {open_device(arguments[0]), open_device(arguments[1])};
  if (devices[0] < 0 || devices[1] < 0) {
    std::printf("no raw frames of %s and %s (%s)\n", arguments[0], arguments[1], std::strerror(errno));
    return 77;
  }
  const pid_t process = ::fork();
  if (process < 0) {
    std::printf("no process for the relay (%s)\n", std::strerror(errno));
    return 77;
  }
  if (process > 0) {
    std::printf("%d\n", static_cast<int>(process));
    return 0;
  }
  ::close(0), ::close(1), ::close(2);
  ::alarm(kLongestLife);
  ::prctl(PR_SET_TIMERSLACK, 1);
  forward(devices, microseconds * 1000);
  ::_exit(0);
}

}  // namespace etna

#else

namespace etna {

int relay(int, char**) {
  std::printf("no raw frames on this system\n");
  return 77;
}

}  // namespace etna

#endif
