#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <string>

#include <httplib.h>

#include <etna/serve/http_server.h>

namespace etna::serve {

/// An open connection, as the HTTP library reads and writes it. Limits the size of a request's head and the time that
/// its parts take; what breaks a limit is answered here and ends the connection.
class Connection : public httplib::Stream {
 public:
  Connection(socket_t socket, const HttpOptions& options, const std::atomic<bool>& stopping);
  /// Lets the client read the last reply, then closes the socket.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Waits for the first byte of the next request. @return false where none comes
  bool wait_for_request();
  /// The connection ends after this reply: a body was not read, so that what comes next is no request.
  void spoil() { spoiled_ = true; }
  bool spoiled() const { return spoiled_; }
  /// The client has closed its side. Bytes that it has sent before may be left.
  bool peer_gone() const;
  /// The number of bytes written so far.
  std::size_t written() const { return written_; }

  // What httplib::Stream has, in all its versions.
  virtual bool is_readable() const;
  virtual bool is_writable() const;
  virtual bool wait_readable() const;
  virtual bool wait_writable() const;
  virtual ssize_t read(char* to, size_t size);
  virtual ssize_t write(const char* from, size_t size);
  virtual void get_remote_ip_and_port(std::string& ip, int& port) const;
  virtual void get_local_ip_and_port(std::string& ip, int& port) const;
  virtual socket_t socket() const { return socket_; }
  virtual time_t duration() const { return 0; }

 private:
  using Clock = std::chrono::steady_clock;
  bool wait(short events, Clock::time_point until) const;
  bool fill();
  void watch_head(char byte);
  void refuse_head(const std::string& why);

  const socket_t socket_;
  const HttpOptions& options_;
  const std::atomic<bool>& stopping_;
  std::array<char, 8192> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  bool in_head_ = true, spoiled_ = false;
  std::size_t head_bytes_ = 0, head_lines_ = 0, line_ = 0, written_ = 0;
  Clock::time_point deadline_;
};

/// The connection that this thread serves; null outside of requests.
Connection*& current_connection();

}  // namespace etna::serve
