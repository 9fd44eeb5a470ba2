#include <etna/tensor/graph/program.h>

#include <fmt/format.h>

#include <etna/device/kernel.h>
#include <etna/device/profile/profiler.h>

namespace etna {
namespace {

std::size_t bytes_of(const Tensor& x) { return static_cast<std::size_t>(x.numel()) * item_size(x.dtype()); }

std::string readable(std::uint64_t bytes) {
  const auto kib = static_cast<double>(bytes) / 1024;
  return kib < 1024 ? fmt::format("{:.1f} KiB", kib) : fmt::format("{:.1f} MiB", kib / 1024);
}

}  // namespace

namespace recording {

void copy_argument(const Tensor& argument, const Tensor& input) {
  if (argument.storage() == input.storage()) return;  // the input itself, passed back
  Tensor x = argument.contiguous();
  const std::size_t offset = static_cast<std::size_t>(x.offset()) * item_size(x.dtype());
  if (x.device().is_cpu()) {
    upload(x.storage()->host() + offset, *input.storage(), 0, bytes_of(x));
  } else if (x.device() == input.device()) {
    gpu::record_copy(x.device(), *x.storage(), offset, *input.storage(), 0, bytes_of(x));
  } else {
    copy_argument(x.to(kCPU), input);
  }
}

}  // namespace recording

Program::Program(recording::Session& session, TensorList inputs, TensorList outputs, ProgramReport report)
    : inputs_(std::move(inputs)), outputs_(std::move(outputs)), report_(std::move(report)) {
  for (auto& [impl, note] : session.gradients()) {
    note.after = note.leaf.grad();
    gradients_.push_back(note);
  }
  for (const Tensor& x : inputs_) report_.input_bytes += bytes_of(x);
  replay_ = session.finish(report_);
  host_ = session.take_host();
  for (auto& [storage, external] : session.externals()) {
    external.version = external.storage->version - external.version;
    externals_.push_back(external);
  }
  session.externals().clear();
  // Nothing else in the program holds these storages, so a use count of one means that the user has released it.
  for (recording::External& external : externals_) external.shared = external.storage.use_count() > 1;
}

std::string Program::stale() const {
  for (const recording::External& e : externals_) {
    if (e.shared && e.storage.use_count() == 1) return "a tensor it works on was replaced, or moved to another device";
  }
  for (const recording::LeafGradient& g : gradients_) {
    if (!g.read_first) continue;
    Tensor now = g.leaf.grad();
    if ((now.defined() ? now.storage().get() : nullptr) != g.before.get()) {
      return g.before ? "gradients it adds to are gone" : "there are gradients to add to now, where there were none";
    }
  }
  return {};
}

void Program::run_first() { replay_->run_first(*host_); }

void Program::replay(const TensorList& arguments) {
  profile::Scope scope("replay");
  host_->advance();
  for (std::size_t i = 0; i < inputs_.size(); ++i) recording::copy_argument(arguments[i], inputs_[i]);
  replay_->run(*host_);
  for (const recording::External& e : externals_) e.storage->version += e.version;
  for (recording::LeafGradient& g : gradients_) {
    if (g.leaf.grad().impl() != g.after.impl()) g.leaf.set_grad(g.after);
  }
}

std::string ProgramReport::str() const {
  std::string text = fmt::format("{} on {}: {} {} in {} groups", name, device.str(), commands,
                                 device.is_cpu() ? "calls of ops" : "commands", groups);
  if (!device.is_cpu()) {
    text +=
        fmt::format("; barriers {}{} as recorded, {} in groups",
                    barriers_eager > 0 ? fmt::format("{} eager, ", barriers_eager) : "", barriers_in_order, barriers);
  }
  if (fused_kernels > 0) {
    text += fmt::format("\nfused: {} commands in {} kernels, {} no longer moved; {} compiled in {:.1f} ms",
                        fused_commands, fused_kernels, readable(fused_bytes), compiled_kernels, compile_ms);
  }
  text += fmt::format("\nmemory: {} planned ({} alive at most, {} without sharing), {} kept, {} inputs, {} constants",
                      readable(planned_bytes), readable(live_bytes), readable(naive_bytes), readable(kept_bytes),
                      readable(input_bytes), readable(constant_bytes));
  text += fmt::format("\nstate: {} bytes a replay; captured in {:.1f} ms\n", state_bytes, capture_ms);
  return text;
}

}  // namespace etna
