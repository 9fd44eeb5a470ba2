#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include <etna/dist/internal/socket.h>

namespace etna::distributed {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddressList addresses_of(const std::string& host, int port, bool to_listen, std::string& error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = to_listen ? AI_PASSIVE : 0;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) error = fmt::format("'{}' is no host that this computer knows: {}", host, ::gai_strerror(code));
  return {code == 0 ? found : nullptr, &::freeaddrinfo};
}

int new_socket(const addrinfo& address) {
  const int handle = ::socket(address.ai_family, address.ai_socktype, address.ai_protocol);
  if (handle >= 0) ::fcntl(handle, F_SETFD, FD_CLOEXEC);
  return handle;
}

void no_delay(int handle) {
  const int on = 1;
  ::setsockopt(handle, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

void Socket::close() {
  if (handle_ >= 0) ::close(std::exchange(handle_, -1));
}

void Socket::shut_down() {
  if (handle_ >= 0) ::shutdown(handle_, SHUT_RDWR);
}

Socket Socket::listen(const std::string& host, int port, std::string& error) {
  const AddressList list = addresses_of(host, port, true, error);
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    Socket socket(new_socket(*at));
    if (!socket.is_open()) continue;
    const int on = 1;
    ::setsockopt(socket.handle_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(socket.handle_, at->ai_addr, at->ai_addrlen) == 0 && ::listen(socket.handle_, 1024) == 0) return socket;
    error = fmt::format("{}:{} cannot be listened at: {}", host, port, std::strerror(errno));
  }
  return {};
}

Socket Socket::connect(const std::string& host, int port, double seconds, std::string& error) {
  const AddressList list = addresses_of(host, port, false, error);
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    Socket socket(new_socket(*at));
    if (!socket.is_open()) continue;
    const int flags = ::fcntl(socket.handle_, F_GETFL);
    ::fcntl(socket.handle_, F_SETFL, flags | O_NONBLOCK);
    int code = ::connect(socket.handle_, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    if (code == EINPROGRESS) {
      pollfd one{socket.handle_, POLLOUT, 0};
      socklen_t size = sizeof code;
      code = ETIMEDOUT;
      if (::poll(&one, 1, static_cast<int>(seconds * 1e3)) == 1)
        ::getsockopt(socket.handle_, SOL_SOCKET, SO_ERROR, &code, &size);
    }
    if (code == 0) {
      ::fcntl(socket.handle_, F_SETFL, flags);
      no_delay(socket.handle_);
      return socket;
    }
    error = fmt::format("{}:{} cannot be reached: {}", host, port, std::strerror(code));
  }
  return {};
}

int Socket::port() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(handle_, reinterpret_cast<sockaddr*>(&address), &size);
  const auto port = address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                                  : reinterpret_cast<const sockaddr_in&>(address).sin_port;
  return ntohs(port);
}

Socket Socket::accept() const {
  Socket socket(::accept(handle_, nullptr, nullptr));
  if (socket.is_open()) {
    ::fcntl(socket.handle_, F_SETFD, FD_CLOEXEC);
    no_delay(socket.handle_);
  }
  return socket;
}

bool Socket::send(const std::string& bytes) const {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
#ifdef MSG_NOSIGNAL
    constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
#else
    constexpr int kFlags = MSG_DONTWAIT;
#endif
    const auto n = ::send(handle_, bytes.data() + sent, bytes.size() - sent, kFlags);
    if (n > 0) {
      sent += static_cast<std::size_t>(n);
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      pollfd one{handle_, POLLOUT, 0};
      if (::poll(&one, 1, 5000) != 1) return false;
    } else if (n == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

std::string Socket::receive(std::size_t most) const {
  std::string bytes(most, '\0');
  for (;;) {
    const auto n = ::recv(handle_, bytes.data(), most, 0);
    if (n < 0 && errno == EINTR) continue;
    bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return bytes;
  }
}

std::vector<bool> wait_readable(std::span<const int> handles, double seconds) {
  std::vector<pollfd> polled;
  for (const int handle : handles) polled.push_back({handle, POLLIN, 0});
  ::poll(polled.data(), static_cast<nfds_t>(polled.size()), std::max(0, static_cast<int>(seconds * 1e3)));
  std::vector<bool> readable;
  for (const pollfd& one : polled) readable.push_back(one.revents != 0);
  return readable;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> found;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return found;
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    const auto& address = reinterpret_cast<const sockaddr_in&>(*at->ifa_addr);
    char text[INET_ADDRSTRLEN] = {};
    ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
    if (std::strncmp(text, "127.", 4) != 0) found.emplace_back(text);
  }
  ::freeifaddrs(first);
  return found;
}

}  // namespace etna::distributed
