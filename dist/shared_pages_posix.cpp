#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <fmt/format.h>

#include <etna/device/internal/os/files.h>
#include <etna/dist/internal/peer_exchange.h>

namespace etna::distributed {
namespace {

struct Handle {
  int number = -1;
  ~Handle() {
    if (number >= 0) ::close(number);
  }
};

/// A name that is no file: the first character is 0.
sockaddr_un abstract_address(const std::string& name, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), std::min(name.size(), sizeof address.sun_path - 1));
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

constexpr std::size_t kMostDescriptors = 8;

bool send_descriptors(int socket, std::span<const int> descriptors) {
  char byte = 0;
  iovec text{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostDescriptors)> room{};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

std::vector<int> receive_descriptors(int socket) {
  char byte = 0;
  iovec text{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostDescriptors)> room{};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  if (::recvmsg(socket, &message, 0) != 1) return {};
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return {};
  std::vector<int> descriptors((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
  std::memcpy(descriptors.data(), CMSG_DATA(header), descriptors.size() * sizeof(int));
  return descriptors;
}

}  // namespace

std::vector<int> swap_descriptors(Meeting& meeting, int rank, std::span<const int> own, double seconds,
                                  std::string& why) {
  static std::uint64_t swaps = 0;
  const std::string key = fmt::format("swap/{}", ++swaps);
  Handle listening, connected;
  timeval limit{};
  // Both come here at once: one that does not connect has failed.
  constexpr double kMostSeconds = 30;
  limit.tv_sec = static_cast<time_t>(std::clamp(seconds, 1.0, kMostSeconds));
  socklen_t length = 0;
  if (rank == 0) {
    std::random_device random;
    std::string name = fmt::format("etna-{}-{:08x}{:08x}", ::getpid(), random(), random());
    listening.number = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const sockaddr_un address = abstract_address(name, length);
    ::setsockopt(listening.number, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (listening.number < 0 || ::bind(listening.number, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
        ::listen(listening.number, 1) != 0) {
      why = fmt::format("no local socket: {}", std::strerror(errno));
      name.clear();
    }
    meeting.put(key, name);
    if (!name.empty()) connected.number = ::accept(listening.number, nullptr, nullptr);
  } else if (const std::string name = meeting.get(key, 0, seconds); !name.empty()) {
    connected.number = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const sockaddr_un address = abstract_address(name, length);
    if (::connect(connected.number, reinterpret_cast<const sockaddr*>(&address), length) != 0)
      why = fmt::format("the other rank's local socket does not answer: {}", std::strerror(errno));
  }
  if (connected.number >= 0) ::setsockopt(connected.number, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  std::vector<int> others;
  if (why.empty() && connected.number >= 0 && send_descriptors(connected.number, own))
    others = receive_descriptors(connected.number);
  if (others.size() == own.size()) return others;
  os::close_descriptors(others);
  if (why.empty()) why = "the other rank sent no descriptors";
  return {};
}

int make_shared_pages(std::size_t bytes, std::string& why) {
  std::random_device random;
  const std::string name = fmt::format("/etna-{}-{:08x}", ::getpid(), random());
  const int descriptor = ::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (descriptor >= 0) ::shm_unlink(name.c_str());
  if (descriptor < 0 || ::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0)
    why = fmt::format("no memory that processes share: {}", std::strerror(errno));
  return descriptor;
}

void* map_shared_pages(int descriptor, std::size_t bytes) {
  void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return pages == MAP_FAILED ? nullptr : pages;
}

void unmap_shared_pages(void* pages, std::size_t bytes) { ::munmap(pages, bytes); }

}  // namespace etna::distributed
