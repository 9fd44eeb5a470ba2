// MPI, as a module of its own, so that libetna does not need it. Messages of more than 1 GiB are sent in pieces, since
// MPI counts with 31 bits.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <mpi.h>

#include <etna/dist/internal/transport.h>

namespace etna::distributed {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 30;

std::string words_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int size = 0;
  MPI_Error_string(code, text, &size);
  return {text, static_cast<std::size_t>(size)};
}

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(bool owner) : owner_(owner) {
    MPI_Comm_dup(MPI_COMM_WORLD, &world_);
    MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(world_, &rank_);
    MPI_Comm_size(world_, &size_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int size = 0;
    MPI_Get_library_version(text, &size);
    std::string name(text, static_cast<std::size_t>(size));
    name = name.substr(0, name.find_first_of(",\n"));
    return name.starts_with("Open MPI v") ? "Open MPI " + name.substr(10) : name;
  }

  int send(int to, int tag, const void* at, std::size_t bytes) override {
    const auto* from = static_cast<const char*>(at);
    return begin(bytes, [&](std::size_t offset, int count, MPI_Request* request) {
      return MPI_Isend(from + offset, count, MPI_BYTE, to, tag, world_, request);
    });
  }
  int receive(int from, int tag, void* at, std::size_t bytes) override {
    auto* to = static_cast<char*>(at);
    return begin(bytes, [&](std::size_t offset, int count, MPI_Request* request) {
      return MPI_Irecv(to + offset, count, MPI_BYTE, from, tag, world_, request);
    });
  }
  std::string progress() override {
    if (!error_.empty() || requests_.empty()) return error_;
    int count = 0;
    indices_.resize(requests_.size());
    const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, indices_.data(),
                                  MPI_STATUSES_IGNORE);
    if (code != MPI_SUCCESS) return error_ = words_of(code);
    for (int i = 0; i < count && count != MPI_UNDEFINED; ++i)
      --open_[static_cast<std::size_t>(message_of_[static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)])])];
    return "";
  }
  bool done(int message) const override { return open_[static_cast<std::size_t>(message)] == 0; }
  void clear() override {
    requests_.clear();
    message_of_.clear();
    open_.clear();
  }
  void finish() override {
    MPI_Comm_free(&world_);
    if (owner_) MPI_Finalize();
  }

 private:
  template <typename Call>
  int begin(std::size_t bytes, const Call& call) {
    const auto message = static_cast<int>(open_.size());
    open_.push_back(0);
    std::size_t offset = 0;
    do {
      const std::size_t count = std::min(kPiece, bytes - offset);
      requests_.push_back(MPI_REQUEST_NULL);
      message_of_.push_back(message);
      ++open_.back();
      if (const int code = call(offset, static_cast<int>(count), &requests_.back()); code != MPI_SUCCESS)
        error_ = words_of(code);
      offset += count;
    } while (offset < bytes);
    return message;
  }

  bool owner_;
  MPI_Comm world_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::vector<MPI_Request> requests_;
  std::vector<int> message_of_, indices_, open_;
  std::string error_;
};

}  // namespace
}  // namespace etna::distributed

extern "C" etna::distributed::Transport* etna_open_mpi_transport_1(const char** error) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (!initialized) {
    int given = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS) {
      *error = "MPI_Init_thread failed";
      return nullptr;
    }
  }
  return new etna::distributed::MpiTransport(!initialized);
}
