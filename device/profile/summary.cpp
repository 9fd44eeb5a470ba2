#include <etna/device/profile/profile.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

namespace etna::profile {
namespace {

struct Interval {
  std::int64_t begin, end;
};
using Intervals = std::vector<Interval>;

/// Sorted and disjoint, within [begin, end].
Intervals joined(Intervals list, std::int64_t begin, std::int64_t end) {
  for (Interval& i : list) i = {std::max(i.begin, begin), std::min(i.end, end)};
  std::erase_if(list, [](const Interval& i) { return i.begin >= i.end; });
  std::sort(list.begin(), list.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  Intervals result;
  for (const Interval& i : list) {
    if (!result.empty() && i.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, i.end);
    } else {
      result.push_back(i);
    }
  }
  return result;
}

std::int64_t length(const Intervals& list) {
  std::int64_t sum = 0;
  for (const Interval& i : list) sum += i.end - i.begin;
  return sum;
}

bool is_transfer(std::string_view name) { return name == "upload" || name == "download"; }

/// The phase that a span counts towards; spans without one are the forward pass.
std::string phase_of(const char* name, const char* phase) {
  if (phase != nullptr) return phase;
  return is_transfer(name) ? "transfer" : "forward";
}

Part part_of(const std::string& phase) {
  return phase == "forward" ? Part::forward : phase == "backward" ? Part::backward : Part::rest;
}

/// Accumulates times by op and by phase.
class Table {
 public:
  void add(const char* name, const char* phase, std::int64_t ns) {
    std::string told = phase_of(name, phase);
    OpTime& op = ops_[name];
    op.name = name;
    const auto part = static_cast<std::size_t>(part_of(told));
    ++op.calls[part];
    op.ns[part] += ns;
    phases_[told] += ns;
    if (is_product(name)) product_ += ns;
    if (is_attention(name)) attention_ += ns;
  }

  void put(Summary& into) const {
    for (const auto& [name, op] : ops_) {
      into.ops.push_back(op);
      into.ops_ns += op.all_ns();
    }
    std::stable_sort(into.ops.begin(), into.ops.end(),
                     [](const OpTime& a, const OpTime& b) { return a.all_ns() > b.all_ns(); });
    for (const auto& [name, ns] : phases_) into.phases.push_back({name, ns});
    std::stable_sort(into.phases.begin(), into.phases.end(), [](const auto& a, const auto& b) { return a.ns > b.ns; });
    into.product_ns = product_;
    into.attention_ns = attention_;
  }

 private:
  std::map<std::string_view, OpTime> ops_;
  std::map<std::string, std::int64_t> phases_;
  std::int64_t product_ = 0, attention_ = 0;
};

/// Ops that the host ran: the outermost of nested ones.
void add_host_ops(const Profile& profile, Table& table) {
  std::vector<const HostSpan*> open;  // enclosing the current span, outermost first
  for (const HostSpan& span : profile.host) {
    while (!open.empty() && (open.back()->thread != span.thread || open.back()->end <= span.begin)) open.pop_back();
    bool nested = false;
    const char* phase = nullptr;
    for (const HostSpan* around : open) {
      nested = nested || around->category == Category::op;
      if (around->category == Category::phase) phase = around->name;
    }
    if (span.category == Category::op && !nested) table.add(span.name, phase, span.end - span.begin);
    open.push_back(&span);
  }
}

void add_gpu(const Profile& profile, Summary& s) {
  for (std::size_t i = 0; i < profile.gpus.size(); ++i) {
    if (profile.gpus[i].dispatches == 0) continue;
    if (s.gpu < 0 || profile.gpus[i].dispatches > profile.gpus[static_cast<std::size_t>(s.gpu)].dispatches) {
      s.gpu = static_cast<int>(i);
    }
  }
  if (s.gpu < 0) return;
  const GpuProfile& gpu = profile.gpus[static_cast<std::size_t>(s.gpu)];
  if (gpu.spans.empty()) return;
  Intervals running, batches, queued, waits;
  for (const GpuSpan& span : gpu.spans) running.push_back({span.begin, span.end});
  for (const GpuBatch& batch : gpu.batches) {
    batches.push_back({batch.begin, batch.end});
    queued.push_back({batch.submitted, batch.end});
  }
  for (const HostSpan& span : profile.host) {
    if (span.category == Category::wait) waits.push_back({span.begin, span.end});
  }
  auto span_of = [&](const Intervals& list) { return length(joined(list, profile.begin, profile.end)); };
  s.busy_ns = span_of(running);
  const std::int64_t in_batches = span_of(batches), in_queue = span_of(queued);
  s.gaps_ns = std::max<std::int64_t>(0, in_batches - s.busy_ns);
  s.latency_ns = std::max<std::int64_t>(0, in_queue - in_batches);
  // Neither queued nor waited for: the host's own time.
  queued.insert(queued.end(), waits.begin(), waits.end());
  s.host_bound_ns = profile.wall_ns() - span_of(queued);
  s.waking_ns = profile.wall_ns() - in_queue - s.host_bound_ns;
}

}  // namespace

bool is_product(const char* op) {
  const std::string_view name = op;
  return name == "matmul" || name.starts_with("linear");
}

bool is_attention(const char* op) { return std::string_view(op).find("attention") != std::string_view::npos; }

Summary summarize(const Profile& profile) {
  Summary s;
  s.steps = profile.steps();
  s.wall_ns = profile.wall_ns();
  add_gpu(profile, s);
  for (const HostSpan& span : profile.host) {
    if (span.category == Category::wait) s.wait_ns += span.end - span.begin;
    if (std::strcmp(span.name, "submit") == 0) s.submit_ns += span.end - span.begin;
  }
  Table table;
  s.of_gpu = s.busy_ns > 0;
  if (s.of_gpu) {
    for (const GpuSpan& span : profile.gpus[static_cast<std::size_t>(s.gpu)].spans) {
      table.add(span.name, span.phase, (span.end - span.begin) / span.at_once);
    }
  } else {
    add_host_ops(profile, table);
  }
  table.put(s);
  return s;
}

}  // namespace etna::profile
