#include <etna/serve/internal/connection.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <fmt/format.h>

#include <etna/serve/api_error.h>

namespace etna::serve {
namespace {

/// A client is given so long, and so many bytes, to read the last reply before the connection is cut.
constexpr std::chrono::milliseconds kLinger{2000};
constexpr std::size_t kLingerBytes = 256u << 20;

void name_of(const sockaddr_storage& address, std::string& ip, int& port) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    port = ntohs(v4.sin_port);
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    port = ntohs(v6.sin6_port);
  }
  ip = text;
}

}  // namespace

Connection*& current_connection() {
  thread_local Connection* current = nullptr;
  return current;
}

Connection::Connection(socket_t socket, const HttpOptions& options, const std::atomic<bool>& stopping)
    : socket_(socket), options_(options), stopping_(stopping) {
  // Tokens are small and must not wait for more of them.
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Connection::~Connection() {
  ::shutdown(socket_, SHUT_WR);
  if (spoiled_) {
    // To close a socket with unread bytes would reset the connection, and the client might lose the reply.
    const Clock::time_point until = Clock::now() + kLinger;
    std::size_t bytes = 0;
    while (bytes < kLingerBytes && wait(POLLIN, until)) {
      const ssize_t got = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
      if (got <= 0 && !(got < 0 && (errno == EAGAIN || errno == EINTR))) break;
      bytes += got > 0 ? static_cast<std::size_t>(got) : 0;
    }
  }
  ::close(socket_);
}

/// Waits until the socket is ready, in steps short enough to notice that the server stops.
bool Connection::wait(short events, Clock::time_point until) const {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd ready{socket_, events, 0};
    const int found = ::poll(&ready, 1, static_cast<int>(std::clamp<long long>(left, 0, 100)));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) return false;
    if (left <= 0 || stopping_) return false;
  }
}

bool Connection::wait_for_request() {
  in_head_ = true;
  head_bytes_ = head_lines_ = line_ = 0;
  if (begin_ == end_ && !wait(POLLIN, Clock::now() + std::chrono::seconds(options_.idle_seconds))) return false;
  deadline_ = Clock::now() + std::chrono::seconds(options_.head_seconds);
  return begin_ != end_ || fill();
}

bool Connection::fill() {
  for (;;) {
    if (!wait(POLLIN, deadline_)) return false;
    const ssize_t got = ::recv(socket_, buffer_.data(), buffer_.size(), 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return false;
    begin_ = 0;
    end_ = static_cast<std::size_t>(got);
#ifdef TCP_QUICKACK
    // Clients that send a head and a body apart wait for the first's acknowledgement, which is held back for 40 ms.
    const int on = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
#endif
    return true;
  }
}

void Connection::refuse_head(const std::string& why) {
  const ApiError error{431, "invalid_request_error", why, "headers", "headers_too_large"};
  const std::string body = error_body(error);
  const std::string reply = fmt::format(
      "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: application/json\r\nConnection: close\r\n"
      "Content-Length: {}\r\n\r\n{}",
      body.size(), body);
  write(reply.data(), reply.size());
  spoil();
}

/// The head ends with an empty line.
void Connection::watch_head(char byte) {
  ++head_bytes_;
  if (byte == '\n') {
    if (line_ == 0 && head_lines_ > 0) {
      in_head_ = false;
      deadline_ = Clock::now() + std::chrono::seconds(options_.body_seconds);
    }
    ++head_lines_;
    line_ = 0;
  } else if (byte != '\r') {
    ++line_;
  }
  if (!in_head_) return;
  if (head_bytes_ > options_.head_bytes)
    refuse_head(fmt::format("the request's headers have more than {} bytes", options_.head_bytes));
  else if (head_lines_ > options_.head_lines + 1)
    refuse_head(fmt::format("the request has more than {} headers", options_.head_lines));
}

ssize_t Connection::read(char* to, size_t size) {
  if (spoiled_) return -1;
  if (begin_ == end_ && !fill()) return -1;
  std::size_t count = 0;
  while (count < size && begin_ < end_) {
    const char byte = buffer_[begin_];
    to[count++] = byte;
    ++begin_;
    if (!in_head_) {
      const std::size_t more = std::min(size - count, end_ - begin_);
      std::memcpy(to + count, buffer_.data() + begin_, more);
      begin_ += more;
      count += more;
      break;
    }
    watch_head(byte);
    if (spoiled_) return -1;
    if (!in_head_) break;
  }
  return static_cast<ssize_t>(count);
}

ssize_t Connection::write(const char* from, size_t size) {
  std::size_t done = 0;
  while (done < size) {
    if (stopping_) return -1;
    const ssize_t sent = ::send(socket_, from + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      done += static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait(POLLOUT, Clock::now() + std::chrono::seconds(options_.write_seconds))) return -1;
    } else if (errno != EINTR) {
      return -1;
    }
  }
  written_ += size;
  return static_cast<ssize_t>(size);
}

bool Connection::peer_gone() const {
  pollfd ready{socket_, POLLIN, 0};
  if (::poll(&ready, 1, 0) <= 0) return false;
  if ((ready.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return true;
  char byte;
  const ssize_t got = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

bool Connection::is_readable() const { return begin_ != end_ || wait(POLLIN, deadline_); }
bool Connection::wait_readable() const { return is_readable(); }
bool Connection::is_writable() const {
  return wait(POLLOUT, Clock::now() + std::chrono::seconds(options_.write_seconds)) && !peer_gone();
}
bool Connection::wait_writable() const { return is_writable(); }

void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getpeername(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0) name_of(address, ip, port);
}
void Connection::get_local_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0) name_of(address, ip, port);
}

}  // namespace etna::serve
