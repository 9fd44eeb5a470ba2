#include <etna/device/internal/vulkan/pipelines/pipelines.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/vulkan/pipelines/spirv.h>
#include <etna/device/internal/vulkan/pipelines/taken_branches.h>

namespace etna::vulkan {

Pipelines::Pipelines(const LogicalDevice& device) : device_(device), cache_(device) {
  VkPushConstantRange push{VK_SHADER_STAGE_COMPUTE_BIT, 0, kPushBytes};
  auto info = structure<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
  info.pushConstantRangeCount = 1;
  info.pPushConstantRanges = &push;
  check(device_.vk.vkCreatePipelineLayout(device_.handle, &info, nullptr, &layout_), "vkCreatePipelineLayout");
}

VkPipeline Pipeline::get() {
  if (handle_ != VK_NULL_HANDLE) return handle_;
  build();
  return handle_ = result_.get();
}

void Pipeline::build() {
  if (begun_.exchange(true)) return;
  try {
    made_.set_value(build_());
  } catch (...) {
    made_.set_exception(std::current_exception());
  }
}

/// Threads that build pipelines, started for the first and ended when there was none for a while.
class Pipelines::Builders {
 public:
  explicit Builders(std::atomic<int>& unbuilt) : unbuilt_(unbuilt) {}
  ~Builders() {
    std::unique_lock lock(mutex_);
    ending_ = true;
    wake_.notify_all();
    ended_.wait(lock, [this] { return threads_ == 0; });
  }

  void add(Pipeline& pipeline) {
    std::lock_guard lock(mutex_);
    waiting_.push_back(&pipeline);
    ++unbuilt_;
    // The thread that queues work builds, too, when it submits.
    const unsigned most = std::clamp(std::thread::hardware_concurrency(), 2u, kMostThreads + 1) - 1;
    if (idle_ == 0 && threads_ < most) {
      std::thread([this] { work(); }).detach();
      ++threads_;
    }
    wake_.notify_one();
  }

 private:
  static constexpr unsigned kMostThreads = 16;

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      const bool woken = wake_.wait_for(lock, std::chrono::seconds(1), [this] { return ending_ || !waiting_.empty(); });
      --idle_;
      if (!woken || ending_) break;
      Pipeline* next = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      next->build();
      --unbuilt_;
      lock.lock();
    }
    if (--threads_ == 0) ended_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable wake_, ended_;
  std::deque<Pipeline*> waiting_;
  std::atomic<int>& unbuilt_;
  unsigned threads_ = 0, idle_ = 0;
  bool ending_ = false;
};

Pipelines::~Pipelines() = default;

void Pipelines::leave() {
  builders_.reset();
  unbuilt_ = 0;
}

Pipeline& Pipelines::get(const Shader& shader, std::span<const std::uint32_t> spec, std::string_view op, bool& made) {
  std::vector<Variant>& variants = made_[shader.words.data()];
  for (const Variant& v : variants) {
    if (std::equal(v.spec.begin(), v.spec.end(), spec.begin(), spec.end())) {
      made = false;
      return *v.pipeline;
    }
  }
  require_fit(shader, spec, op);
  std::vector<std::uint32_t> constants(spec.begin(), spec.end());
  auto build = [this, shader, constants, op = std::string(op)] { return make(shader, constants, op); };
  Pipeline& pipeline = *variants.emplace_back(Variant{constants, std::make_unique<Pipeline>(build)}).pipeline;
  if (builders_ == nullptr) builders_ = std::make_unique<Builders>(unbuilt_);
  builders_->add(pipeline);
  made = true;
  cache_.note_pipeline();
  return pipeline;
}

/// Reports as an error what a driver would answer with a lost device, if at all.
void Pipelines::require_fit(const Shader& shader, std::span<const std::uint32_t> spec, std::string_view op) const {
  if (shader.words.empty()) {
    throw DeviceError(
        fmt::format("{}: the kernel {} was left out of this build, since the GLSL compiler lacks an extension "
                    "it needs; build with the one that tools/get-glslang brings",
                    op, shader.name));
  }
  ShaderNeeds needs = shader_needs(shader.words, spec);
  const Features& has = device_.adapter.features;
  const VkPhysicalDeviceLimits& limits = device_.adapter.properties.limits;
  auto require = [&](bool needed, VkBool32 there, const char* feature) {
    if (needed && !there) {
      throw DeviceError(fmt::format("{}: the kernel {} needs {}, which {} ({}) lacks", op, shader.name, feature,
                                    device_.device.str(), device_.adapter.info.name));
    }
  };
  require(needs.float16, has.v12.shaderFloat16, "arithmetic on float16");
  require(needs.float64, has.core.features.shaderFloat64, "float64");
  require(needs.int64, has.core.features.shaderInt64, "int64");
  require(needs.int16, has.core.features.shaderInt16, "arithmetic on int16");
  require(needs.int8, has.v12.shaderInt8, "arithmetic on int8");
  require(needs.packed_dot, has.v13.shaderIntegerDotProduct, "dot products of packed i8");
  require(needs.cooperative_matrix, has.matrix.cooperativeMatrix, "cooperative matrices");
  if (needs.shared_bytes > limits.maxComputeSharedMemorySize) {
    throw DeviceError(fmt::format(
        "{}: the kernel {} asks for {} bytes of shared memory, {} ({}) has {}; use a smaller tile", op, shader.name,
        needs.shared_bytes, device_.device.str(), device_.adapter.info.name, limits.maxComputeSharedMemorySize));
  }
  std::uint64_t invocations = 1;
  bool fits = true;
  for (int axis = 0; axis < 3; ++axis) {
    invocations *= needs.local_size[axis];
    fits = fits && needs.local_size[axis] > 0 && needs.local_size[axis] <= limits.maxComputeWorkGroupSize[axis];
  }
  if (!fits || invocations > limits.maxComputeWorkGroupInvocations) {
    throw DeviceError(
        fmt::format("{}: the kernel {} wants workgroups of {}x{}x{}, {} ({}) takes at most {} invocations", op,
                    shader.name, needs.local_size[0], needs.local_size[1], needs.local_size[2], device_.device.str(),
                    device_.adapter.info.name, limits.maxComputeWorkGroupInvocations));
  }
}

VkPipeline Pipelines::make(const Shader& shader, std::span<const std::uint32_t> spec, const std::string& op) const {
  const std::vector<std::uint32_t> demands = demanding(device_.adapter.half_conversion, shader.words);
  std::vector<SpecializationValue> given;
  for (std::uint32_t i = 0; i < spec.size(); ++i) given.push_back({i, spec[i]});
  if (!demands.empty()) {
    given.push_back({kHalfConversionId, static_cast<std::uint32_t>(device_.adapter.half_conversion)});
  }
  std::span<const std::uint32_t> words = demands.empty() ? shader.words : demands;
  // Software rasterizers compile what they are given as it is: without the branches not taken that takes a sixth of the
  // time. Drivers of GPUs do this themselves.
  std::vector<std::uint32_t> taken;
  // Matrix products also keep the loop over k inside a step: unrolled, it more than doubles LLVM's time. Not their
  // small loops, since llvmpipe ends an invocation's loops after 65,535 iterations in all; and not attention's, where
  // Mesa turns arrays that a loop indexes into chains of branches.
  if (device_.adapter.info.kind == "software") {
    taken = taken_branches(words, given);
    const std::string_view name = shader.name;
    const bool of_experts = name.starts_with("gemm_expert") && !name.ends_with("bf16");
    if (name == "gemm_32" || name == "gemm_64" || name == "gemm_128" || of_experts) taken = rolled_loops(taken, 3);
    if (name == "expert_transposed") taken = rolled_loops(taken, 1);
    words = taken;
  }
  auto module_info = structure<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
  module_info.codeSize = words.size_bytes();
  module_info.pCode = words.data();
  VkShaderModule module = VK_NULL_HANDLE;
  check(device_.vk.vkCreateShaderModule(device_.handle, &module_info, nullptr, &module), "vkCreateShaderModule");

  std::vector<VkSpecializationMapEntry> entries;
  std::vector<std::uint32_t> values;
  for (const SpecializationValue& g : given) {
    entries.push_back({g.id, static_cast<std::uint32_t>(values.size() * sizeof g.value), sizeof g.value});
    values.push_back(g.value);
  }
  VkSpecializationInfo constants{static_cast<std::uint32_t>(entries.size()), entries.data(), values.size() * 4,
                                 values.data()};
  auto info = structure<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = &constants;
  // Kernels that count their subgroups or lanes need the size that capabilities() reported.
  auto size = structure<VkPipelineShaderStageRequiredSubgroupSizeCreateInfo>(
      VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO);
  size.requiredSubgroupSize = device_.adapter.capabilities.subgroup_size;
  const Features& has = device_.adapter.features;
  const ShaderNeeds needs = shader_needs(shader.words, spec);
  if ((needs.cooperative_matrix || needs.subgroups) && has.v13.subgroupSizeControl && has.v13.computeFullSubgroups) {
    info.stage.pNext = &size;
    // Only whole ones can be asked to be full.
    if (needs.local_size[0] % size.requiredSubgroupSize == 0)
      info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  }
  info.layout = layout_;
  VkPipeline pipeline = VK_NULL_HANDLE;
  VkResult result = device_.vk.vkCreateComputePipelines(device_.handle, cache_.handle(), 1, &info, nullptr, &pipeline);
  device_.vk.vkDestroyShaderModule(device_.handle, module, nullptr);
  if (result != VK_SUCCESS) {
    throw DeviceError(
        fmt::format("{}: {} cannot build the kernel {}: {}", op, device_.device.str(), shader.name, str(result)));
  }
  return pipeline;
}

}  // namespace etna::vulkan
