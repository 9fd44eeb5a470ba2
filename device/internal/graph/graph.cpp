#include <etna/device/internal/graph/graph.h>

#include <algorithm>
#include <map>
#include <utility>

#include <etna/device/internal/counting.h>
#include <etna/device/internal/graph/fuse.h>
#include <etna/device/internal/graph/schedule.h>

namespace etna {

using graph::Command;

namespace {

bool empty(const std::array<std::uint32_t, 3>& groups) { return groups[0] == 0 || groups[1] == 0 || groups[2] == 0; }

}  // namespace

Graph::Graph(Device device, const GraphOptions& options)
    : device_(device), form_(backend(device).graph_form()), options_(options), storages_(device, form_) {
  report_.device = device;
}

Graph::~Graph() { leave(); }

void Graph::enter() {
  if (form_ == GraphForm::commands) set_current(this);
}
void Graph::leave() {
  if (current() == this) set_current(nullptr);
}

Command& Graph::add(std::string_view op, std::span<const MemoryRange> reads, std::span<const MemoryRange> writes) {
  Command& command = list_.commands.emplace_back();
  command.name(op);
  command.labels = profile::Labels::now();
  list_.set_ranges(command, reads, writes);
  return command;
}

void Graph::call(std::string_view op, std::function<void()> run, std::span<const MemoryRange> reads,
                 std::span<const MemoryRange> writes) {
  add(op, reads, writes).work = graph::CallCommand{std::move(run)};
}

void Graph::dispatch(const gpu::Dispatch& d) {
  if (empty(d.groups)) return;
  graph::DispatchCommand work{.shader = d.shader, .spec = list_.add_constants(d.spec), .groups = d.groups};
  if (d.elementwise != nullptr || d.through != nullptr) {
    work.info = static_cast<std::uint32_t>(list_.infos.size());
    if (d.elementwise != nullptr)
      list_.infos.emplace_back(*d.elementwise);
    else
      list_.infos.emplace_back(*d.through);
  }
  Command& command = add(d.op, d.arguments.reads(), d.arguments.writes());
  command.work = work;
  list_.set_arguments(command, d.arguments);
}

void Graph::dispatch(const gpu::CubinDispatch& d) {
  if (empty(d.groups)) return;
  Command& command = add(d.op, d.arguments.reads(), d.arguments.writes());
  command.work = graph::CubinCommand{&d.kernel, d.groups, d.threads, d.shared_bytes};
  list_.set_arguments(command, d.arguments);
}

void Graph::copy(std::uint64_t from, std::uint64_t to, std::size_t bytes) {
  const MemoryRange read{from, bytes}, write{to, bytes};
  add("copy", {&read, 1}, {&write, 1}).work = graph::CopyCommand{};
}

void Graph::fill(std::uint64_t to, std::size_t bytes, std::uint32_t word) {
  const MemoryRange write{to, bytes};
  add("fill", {}, {&write, 1}).work = graph::FillCommand{word};
}

void Graph::foreign(const gpu::ForeignCall& call) {
  add(call.op, call.reads, call.writes).work = graph::ForeignCommand{call.work};
}

void Graph::fuse(graph::fusion::KernelWriter& kernels) {
  graph::fusion::fuse(
      list_, storages_.dropped(), kernels, [this](const Arguments& rows) { return storages_.constant(rows); }, report_);
}

/// Puts the commands in the order of their groups.
void Graph::group() {
  std::vector<std::uint32_t> groups;
  if (options_.one_by_one || form_ == GraphForm::calls) {
    for (std::uint32_t i = 0; i < list_.commands.size(); ++i) groups.push_back(i);
  } else {
    std::vector<graph::Accesses> accesses;
    for (const Command& c : list_.commands) {
      accesses.push_back(list_.accesses(c));
      // Ranks call their collectives in the same order, whatever else each of them captures.
      if (c.foreign() != nullptr) accesses.back().line = static_cast<int>(c.foreign()->work->place());
    }
    groups = graph::group_commands(accesses);
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    Command& c = list_.commands[i];
    c.group = groups[i];
    ++report_.commands;
    if (!c.moves_bytes() && c.foreign() == nullptr && !std::holds_alternative<graph::CallCommand>(c.work))
      ++report_.dispatches;
    report_.groups = std::max<std::int64_t>(report_.groups, c.group + 1);
  }
  // One between groups, and one before the first.
  if (form_ == GraphForm::commands) report_.barriers = report_.groups;
  std::stable_sort(list_.commands.begin(), list_.commands.end(), [](const Command& a, const Command& b) {
    // What runs beside a group begins before it.
    return a.group != b.group ? a.group < b.group : a.foreign() != nullptr && b.foreign() == nullptr;
  });
  let_foreign_run();
}

/// Finds how long foreign commands may run: until a group touches what they do. Those of one place run in order anyway.
void Graph::let_foreign_run() {
  for (std::size_t i = 0; i < list_.commands.size(); ++i) {
    Command& c = list_.commands[i];
    auto* foreign = std::get_if<graph::ForeignCommand>(&c.work);
    if (foreign == nullptr) continue;
    foreign->until = static_cast<std::uint32_t>(report_.groups) - 1;
    for (std::size_t k = i + 1; k < list_.commands.size(); ++k) {
      const Command& next = list_.commands[k];
      if (next.foreign() != nullptr && next.foreign()->work->place() == foreign->work->place()) continue;
      if (!graph::conflict(list_.accesses(c), list_.accesses(next))) continue;
      foreign->until = next.group - 1;
      break;
    }
  }
}

/// Replaces placeholder addresses by those of the planned memory.
void Graph::relocate() {
  for (const Command& c : list_.commands) {
    storages_.relocate(std::span(list_.bytes).subspan(c.arguments.begin, c.arguments.count), list_.addresses(c),
                       c.op.data());
  }
  for (const Command& c : list_.commands) {
    for (graph::Slice s : {c.reads, c.writes}) {
      for (MemoryRange& r : std::span(list_.ranges).subspan(s.begin, s.count)) {
        r.address = storages_.relocated(r.address, c.op.data());
      }
    }
  }
}

void Graph::plan(const GraphTarget& target) {
  if (form_ == GraphForm::commands) {
    graph::Hazards hazards;
    for (const Command& c : list_.commands) {
      if (hazards.access(c.stage(), list_.reads(c), list_.writes(c))) ++report_.barriers_in_order;
    }
  }
  if (target.kernels != nullptr && !options_.one_by_one) fuse(*target.kernels);
  if (form_ == GraphForm::commands && !options_.one_by_one) place_copied();
  list_.infos = {};
  group();
  for (const Command& c : list_.commands) {
    for (std::span<const MemoryRange> ranges : {list_.reads(c), list_.writes(c)}) {
      for (const MemoryRange& range : ranges) {
        storages_.touch(range, c.group, c.op.data());
        if (const graph::ForeignCommand* foreign = c.foreign()) storages_.touch(range, foreign->until, c.op.data());
      }
    }
  }
  storages_.plan(target.largest_chunk, options_.shared, report_);
  relocate();
  storages_.finish();
}

void Graph::count_run() {
  counting::replay();
  if (form_ == GraphForm::calls) return;
  if (counted_.empty()) {
    const auto row_of = [this](const Command& c) -> counting::Row& {
      if (const auto* d = std::get_if<graph::DispatchCommand>(&c.work)) {
        const std::string_view op = c.op.data();
        // A kernel written for the graph has no name but that of what it computes.
        const gpu::Shader shader{c.stands_for > 1 ? c.op.data() : d->shader.name, d->shader.words};
        return counting::row({device_, shader.name, op, list_.spec(*d)},
                             [&] { return counting::path_of(shader.words) + (c.stands_for > 1 ? ", fused" : ""); });
      }
      if (const auto* launch = std::get_if<graph::CubinCommand>(&c.work)) {
        return counting::row({device_, launch->kernel->name, c.op.data()},
                             [&] { return counting::path_of(*launch->kernel); });
      }
      return counting::row_of_bytes(device_, c.op.data());
    };
    std::map<counting::Row*, CountedRow> rows;
    for (const Command& c : list_.commands) {
      CountedRow& counted = rows[&row_of(c)];
      ++counted.runs;
      counted.launches += c.stands_for;
    }
    for (auto& [row, counted] : rows) counted_.push_back({row, counted.runs, counted.launches});
  }
  for (const CountedRow& c : counted_) counting::replayed(*c.row, c.runs, c.launches);
}

}  // namespace etna
