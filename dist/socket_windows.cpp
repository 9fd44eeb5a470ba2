#include <etna/device/error.h>
#include <etna/dist/internal/socket.h>

namespace etna::distributed {
namespace {

constexpr const char* kNoSockets = "distributed: training in several processes does not run on Windows; WSL 2 has it";

}  // namespace

void Socket::close() {}
void Socket::shut_down() {}
Socket Socket::listen(const std::string&, int, std::string&) { throw Error(kNoSockets); }
Socket Socket::connect(const std::string&, int, double, std::string&) { throw Error(kNoSockets); }
int Socket::port() const { return 0; }
Socket Socket::accept() const { return {}; }
bool Socket::send(const std::string&) const { return false; }
std::string Socket::receive(std::size_t) const { return {}; }
std::vector<bool> wait_readable(std::span<const int> handles, double) { return std::vector<bool>(handles.size()); }
std::vector<std::string> own_addresses() { return {}; }

}  // namespace etna::distributed
