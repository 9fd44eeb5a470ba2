#include <etna/dist/internal/group.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include <etna/device/internal/foreign_work.h>
#include <etna/device/internal/os/clock.h>
#include <etna/device/internal/os/process.h>
#include <etna/dist/internal/host_engine.h>
#include <etna/dist/internal/nccl_engine.h>
#include <etna/dist/internal/open_transport.h>
#include <etna/dist/internal/socket.h>

namespace etna::distributed {
namespace {

/// Characters of the word that MeetingServer::address() begins with.
constexpr std::size_t kWordLength = 24;

const char* environment(const char* name) { return std::getenv(name); }

/// Rank 0's address, written in one step, so that nobody reads half of it.
void write_meeting_file(const std::string& file, const std::string& address) {
  const std::string next = file + ".next";
  std::ofstream out(next, std::ios::trunc);
  out << address << '\n';
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(next, file, error);
  if (!out || error) throw Error(fmt::format("distributed: '{}', where the ranks meet, cannot be written", file));
}

std::string read_meeting_file(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

/// Removes what an earlier run left. @throws Error for a file of something else, which stays
void clear_meeting_file(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return;
  const std::string line = std::filesystem::is_regular_file(file, ignored) ? read_meeting_file(file) : "a folder";
  const std::size_t word = line.find(' ');
  const bool ours = std::filesystem::is_empty(file, ignored)
                        ? std::filesystem::is_regular_file(file, ignored)
                        : word == kWordLength && line.find_first_not_of("0123456789abcdef") == word;
  if (!ours)
    throw Error(
        fmt::format("distributed: '{}', where the ranks shall meet, is there and holds something else; name a file "
                    "that is not there",
                    file));
  std::filesystem::remove(file, ignored);
}

/// Sends rank 0's text to all, over MPI.
std::string share_text(Transport& transport, std::string text, double seconds) {
  constexpr int kTag = 0;
  const double until = os::steady_seconds() + seconds;
  std::uint64_t size = text.size();
  for (int part = 0; part < 2; ++part) {
    if (part == 1) text.resize(size);
    void* at = part == 0 ? static_cast<void*>(&size) : text.data();
    const std::size_t bytes = part == 0 ? sizeof size : size;
    std::vector<int> messages;
    if (transport.rank() != 0) messages.push_back(transport.receive(0, kTag, at, bytes));
    for (int r = 1; transport.rank() == 0 && r < transport.size(); ++r)
      messages.push_back(transport.send(r, kTag, at, bytes));
    while (!std::all_of(messages.begin(), messages.end(), [&](int m) { return transport.done(m); })) {
      const std::string wrong = transport.progress();
      if (!wrong.empty()) throw RankLost(fmt::format("distributed: {} reports: {}", transport.name(), wrong));
      if (os::steady_seconds() > until)
        throw RankLost(fmt::format("distributed: rank 0 sent no address within {:g} seconds", seconds));
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    transport.clear();
  }
  return text;
}

}  // namespace

Group::Group(const Options& options, Place place)
    : id_([] {
        static std::uint64_t groups = 0;
        return ++groups;
      }()),
      place_(std::move(place)),
      options_(options) {
  try {
    join(options);
  } catch (...) {
    worker_.reset();
    if (server_) server_->stop();
    meeting_.reset();
    throw;
  }
}

void Group::join(const Options& options) {
  std::string kind = options.engine;
  if (const char* chosen = std::getenv("ETNA_DIST"); kind.empty() && chosen != nullptr) kind = chosen;
  if (!kind.empty() && kind != "mpi" && kind != "nccl" && kind != "none")
    throw Error(
        fmt::format("distributed: '{}' is no engine; there are mpi, nccl and none (ETNA_DIST)", kind.substr(0, 40)));
  if (kind == "mpi" && !place_.mpi)
    throw Error(
        fmt::format("distributed: {} started these {} processes, and MPI cannot join processes that it did not start; "
                    "use: etna launch -n {} -- PROGRAM",
                    place_.launcher == "environment" ? "no launcher" : place_.launcher, place_.size, place_.size));
  options_.engine = kind;
  if (kind.empty() || kind == "nccl") gpu::share_memory();
  if (kind.empty() || kind == "nccl") kind = place_.mpi ? "mpi" : "none";
  worker_ = std::make_unique<Worker>();
  std::unique_ptr<Transport> transport;
  if (kind == "mpi") {
    std::string error;
    worker_->start([&] { transport = open_mpi_transport(error); });
    worker_->wait();
    if (transport == nullptr) throw Error("distributed: " + error);
    if (transport->rank() != place_.rank || transport->size() != place_.size)
      throw Error(
          fmt::format("distributed: this is rank {} of {} for MPI, and rank {} of {} for {}; is {} built for the MPI "
                      "whose mpirun started it?",
                      transport->rank(), transport->size(), place_.rank, place_.size, place_.launcher, "libetna_mpi"));
  } else if (place_.meet.empty()) {
    throw Error(
        "distributed: the ranks have nowhere to meet; set ETNA_MEET to HOST:PORT of rank 0, or to a file that all see");
  }
  const bool file = place_.meet.find('/') != std::string::npos;
  const bool one_host = place_.local_size == place_.size;
  std::string address = place_.meet;
  if (place_.rank == 0) {
    if (file) clear_meeting_file(place_.meet);
    std::string host = one_host ? "127.0.0.1" : "";
    int port = 0;
    if (!address.empty() && !file) {
      const auto given = parse_address(address);
      if (given.first == "localhost" || given.first.starts_with("127.")) host = given.first;
      port = given.second;
    }
    server_ = std::make_unique<MeetingServer>(host, port, place_.size, options.limit_seconds);
    if (port == 0) address = one_host ? server_->local_address() : server_->address();
    if (file) write_meeting_file(file_ = place_.meet, address);
  }
  const double until = os::steady_seconds() + options.join_seconds;
  if (address.empty() || (place_.rank == 0 && transport != nullptr && place_.meet.empty())) {
    worker_->start([&] { address = share_text(*transport, address, options.join_seconds); });
    worker_->wait();
  }
  if (file && place_.rank != 0) {
    // What is there may be of an earlier run: then nobody answers, and rank 0 replaces it.
    for (;; std::this_thread::sleep_for(std::chrono::milliseconds(50))) {
      address = read_meeting_file(place_.meet);
      try {
        if (!address.empty()) {
          meeting_ = std::make_unique<Meeting>(address, place_.rank, place_.size, 1.0, options.limit_seconds);
          break;
        }
      } catch (const RankLost&) {}
      if (os::steady_seconds() > until)
        throw RankLost(fmt::format("distributed: rank {} did not meet rank 0 by '{}' within {:g} seconds", place_.rank,
                                   place_.meet, options.join_seconds));
    }
  } else {
    meeting_ =
        std::make_unique<Meeting>(address, place_.rank, place_.size, options.join_seconds, options.limit_seconds);
  }
  count_local_ranks(options.join_seconds);
  if (transport != nullptr)
    engine_ = std::make_unique<HostEngine>(std::move(transport), *meeting_, options.late_seconds);
}

void Group::count_local_ranks(double seconds) {
  const std::vector<std::string> hosts = meeting_->gather("host", os::host_name(), seconds);
  meeting_->members();
  if (place_.local_size < 0 || place_.local_rank < 0) {
    const auto same = [&](int end) {
      return static_cast<int>(
          std::count(hosts.begin(), hosts.begin() + end, hosts[static_cast<std::size_t>(place_.rank)]));
    };
    if (place_.local_size < 0) place_.local_size = same(place_.size);
    if (place_.local_rank < 0) place_.local_rank = same(place_.rank);
  }
}

Group::~Group() {
  try {
    leave();
  } catch (...) {  // NOLINT: nothing is left to tell
  }
}

namespace {

std::unique_ptr<Group> the_group;

void end_at_exit() {
  // Whatever still waits for others waits in vain: this process ends before its time.
  if (the_group) the_group->meeting().fail("this rank has ended");
  the_group.reset();
}

}  // namespace

Engine& Group::engine() {
  if (engine_ == nullptr && options_.engine == "none")
    throw Error("distributed: this group has no engine (ETNA_DIST=none), so it can only meet");
  if (engine_ == nullptr)
    throw Error(
        fmt::format("distributed: tensors on the CPU travel by MPI, which did not start these processes; move them to "
                    "the GPU, or use: etna launch -n {} -- PROGRAM",
                    place_.size));
  return *engine_;
}

Engine* Group::engine_on(Device device, int number) {
  if (device.is_cpu()) return &engine_of(number);
  const bool wanted = options_.engine.empty() || options_.engine == "nccl";
  if (wanted && number == 0 && !std::exchange(asked_for_device_engine_, true)) {
    device_engine_ = NcclEngine::join(*meeting_, place_, device, options_.join_seconds, options_.late_seconds,
                                      why_no_device_engine_);
    // Handlers run in reverse order: before those of CUDA and NCCL, which are loaded by now.
    static const int again = std::atexit(end_at_exit);
    (void)again;
  }
  Engine* found = number == 0 ? device_engine_.get() : part(number).device_engine.get();
  if (found != nullptr && found->takes(device)) return found;
  if (options_.engine == "nccl" || engine_ == nullptr)
    throw Error(fmt::format("distributed: NCCL does not work here: {}",
                            found != nullptr ? "this process uses another device, too" : why_no_device_engine_));
  return nullptr;
}

std::string Group::engines() const {
  std::string text = device_engine_ != nullptr ? device_engine_->name() : "";
  if (engine_ != nullptr) text += (text.empty() ? "" : " and ") + engine_->name();
  if (!why_no_device_engine_.empty() && engine_ != nullptr)
    text += fmt::format("; tensors of GPUs go through host memory ({})", why_no_device_engine_);
  return text;
}

int Group::add_part(const std::vector<int>& members) {
  // Those of one rank too: engines count them.
  Part made{members, 0, nullptr, nullptr};
  if (engine_ != nullptr) made.engine = engine_->part(members);
  if (device_engine_ != nullptr) made.device_engine = device_engine_->part(members);
  if (made.engine == nullptr && made.device_engine == nullptr)
    throw Error(fmt::format("split: {} has no groups of some ranks", engine().name()));
  made.rank = static_cast<int>(std::find(members.begin(), members.end(), place_.rank) - members.begin());
  parts_.push_back(std::move(made));
  return static_cast<int>(parts_.size());
}

Group::Part& Group::part(int number) {
  if (number < 1 || static_cast<std::size_t>(number) > parts_.size())
    throw Error("ProcessGroup: it is of a group that has ended; call split() after init()");
  return parts_[static_cast<std::size_t>(number - 1)];
}

Engine& Group::engine_of(int number) {
  if (number == 0 || part(number).engine == nullptr) return engine();
  return *part(number).engine;
}

void Group::require_alive(const Collective& c) const {
  if (meeting_->failed())
    throw RankLost(fmt::format("distributed: {}: {}; the group has ended", str(c), meeting_->failure()));
}

void Group::number(Collective& c) {
  if (c.kind != Kind::send && c.kind != Kind::receive)
    c.number = c.group == 0 ? ++number_ : ++part(c.group).number_of_collective;
}

void Group::start(Collective c, const Tensor& in, const Tensor& out) {
  const Tensor& any = in.defined() ? in : out;
  if (c.kind == Kind::barrier && engine_ == nullptr) {
    meeting_->gather(fmt::format("barrier/{}", ++number_), "", options_.late_seconds);
    return;
  }
  Engine& engine = any.defined() && !any.device().is_cpu() ? *engine_on(any.device(), c.group) : engine_of(c.group);
  require_alive(c);
  number(c);
  if (!engine.runs_anywhere()) return engine.run(c, in, out);
  worker_->start([&engine, c, in, out] { engine.run(c, in, out); });
}

std::shared_ptr<QueuedRun> Group::queue(Collective c, const Tensor& in, const Tensor& out) {
  Engine& engine = engine_of(c.group);
  check();
  require_alive(c);
  number(c);
  struct Turn {
    std::shared_ptr<QueuedRun> run = std::make_shared<QueuedRun>();
    ~Turn() { run->end(); }
  };
  auto turn = std::make_shared<Turn>();
  std::shared_ptr<QueuedRun> run = turn->run;
  worker_->start([this, &engine, c, in, out, turn = std::move(turn)] {
    turn->run->wait(*meeting_);
    engine.run(c, in, out);
  });
  return run;
}

void Group::finish() {
  try {
    worker_->wait();
  } catch (const Error& error) {
    meeting_->fail(error.what());
    throw;
  }
}

void Group::check() {
  try {
    worker_->check();
  } catch (const Error& error) {
    meeting_->fail(error.what());
    throw;
  }
}

void Group::run(Collective c, const Tensor& in, const Tensor& out) {
  start(c, in, out);
  finish();
}

void Group::leave() {
  if (left_) return;
  left_ = true;
  if (meeting_ == nullptr) return;
  bool ended = meeting_->failed();
  try {
    if (!ended) worker_->wait();
  } catch (const std::exception& error) {
    meeting_->fail(error.what());
  }
  meeting_->leave();
  ended = meeting_->failed();
  if (ended) {
    if (server_) server_->stop();
    for (Part& part : parts_) part.device_engine.reset();
    device_engine_.reset();
    worker_.reset();
    for (Part& part : parts_) (void)part.engine.release();  // NOLINT: as below
    (void)engine_.release();                                // NOLINT: messages that nobody will answer refer to it
    return;
  }
  for (Part& part : parts_) {
    if (part.device_engine != nullptr) part.device_engine->finish();
    part.device_engine.reset();
  }
  if (device_engine_ != nullptr) device_engine_->finish();
  device_engine_.reset();
  if (engine_ != nullptr) {
    worker_->start([this] { engine_->finish(); });
    worker_->wait();
  }
  worker_.reset();
  parts_.clear();
  engine_.reset();
  server_.reset();
  std::error_code ignored;
  if (!file_.empty()) std::filesystem::remove(file_, ignored);
}

Group* group() { return the_group.get(); }

Group& require_group(const char* what) {
  if (the_group == nullptr)
    throw Error(
        fmt::format("{}: this process is in no group of several; start it with etna launch, and call "
                    "distributed::init()",
                    what));
  return *the_group;
}

namespace {

/// Seconds above 0 of a variable; 0 where there is none. @throws Error for other text
double seconds_in_environment(const char* name) {
  const char* text = environment(name);
  if (text == nullptr || *text == '\0') return 0;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (*end != '\0' || !std::isfinite(seconds) || !(seconds > 0))
    throw Error(
        fmt::format("distributed: {} is '{}'; wanted are seconds above 0", name, std::string(text).substr(0, 40)));
  return seconds;
}

}  // namespace

void init(const Options& given) {
  Options options = given;
  if (options.late_seconds == 0) options.late_seconds = seconds_in_environment("ETNA_LATE_SECONDS");
  if (options.late_seconds == 0) options.late_seconds = 600;
  if (the_group != nullptr)
    throw Error(fmt::format("distributed: this process is in a group already, as rank {} of {}", rank(), size()));
  Place place = find_place(options, environment);
  if (!(options.limit_seconds > 0) || !(options.join_seconds > 0) || !(options.late_seconds > 0))
    throw Error("distributed: limits are seconds above 0");
  if (place.size == 1) return;
  the_group = std::make_unique<Group>(options, std::move(place));
  static const int once = std::atexit(end_at_exit);
  (void)once;
}

void finish() {
  if (the_group == nullptr) return;
  the_group->leave();
  the_group.reset();
}

int rank() { return the_group ? the_group->place().rank : 0; }
int size() { return the_group ? the_group->place().size : 1; }
int local_rank() { return the_group ? the_group->place().local_rank : 0; }
int local_size() { return the_group ? the_group->place().local_size : 1; }
std::string engine() { return the_group ? the_group->engines() : ""; }
bool can_capture(Device device) {
  return !the_group || device.is_cpu() || the_group->engine_on(device) != nullptr || gpu::maps_memory(device);
}

bool reports_failure() {
  if (the_group == nullptr || !the_group->meeting().failed()) return true;
  const int lost = the_group->meeting().lost();
  // Its launcher saw how it ended.
  if (lost >= 0 && std::getenv("ETNA_LAUNCHED") != nullptr && the_group->meeting().failure().ends_with("has ended"))
    return false;
  return lost < 0 || the_group->place().rank == (lost == 0 ? 1 : 0);
}

Slowest slowest_rank() {
  if (the_group == nullptr || the_group->place().rank != 0) return {};
  static std::vector<double> before;
  const std::vector<Member> members = the_group->meeting().members();
  before.resize(members.size());
  Slowest found;
  double least = 0, most = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const double waited = members[i].progress.waited - before[i];
    before[i] = members[i].progress.waited;
    if (found.rank < 0 || waited < least) least = waited, found.rank = static_cast<int>(i);
    most = std::max(most, waited);
  }
  found.seconds = most - least;
  return found;
}

}  // namespace etna::distributed
