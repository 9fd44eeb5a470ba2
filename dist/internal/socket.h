#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// Connections by TCP, as much as ranks need to meet.
namespace etna::distributed {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int handle) : handle_(handle) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : handle_(std::exchange(other.handle_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  bool is_open() const { return handle_ >= 0; }
  int handle() const { return handle_; }
  void close();
  /// Makes waits in other threads end; the handle stays.
  void shut_down();

  /// @return an open socket, or a closed one with what is wrong in `error`
  static Socket listen(const std::string& host, int port, std::string& error);
  static Socket connect(const std::string& host, int port, double seconds, std::string& error);
  int port() const;
  Socket accept() const;
  /// All bytes, within some seconds; false where the other end is gone or takes none.
  bool send(const std::string& bytes) const;
  /// What has arrived, at most `most` bytes; empty at the end of the connection.
  std::string receive(std::size_t most) const;

 private:
  int handle_ = -1;
};

/// Which of the sockets have something to read, after at most some seconds.
std::vector<bool> wait_readable(std::span<const int> handles, double seconds);

/// The addresses of this computer but those of the loopback, in digits.
std::vector<std::string> own_addresses();

/// "host:29500", "[::1]:29500". @throws Error
std::pair<std::string, int> parse_address(const std::string& text);

}  // namespace etna::distributed
