#include <etna/device/internal/vulkan/api/adapter.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <set>
#include <thread>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/vulkan/api/adapters.h>
#include <etna/device/internal/vulkan/api/instance.h>

namespace etna::vulkan {
namespace {

/// The architecture of machine code that the device runs: 90 for sm_90a; 0: none that we build.
std::uint32_t cubin_architecture(const VkPhysicalDeviceProperties& properties) {
  // Vulkan does not report the architecture. NVIDIA gave the ids 0x23xx to GH100, the chip of every Hopper card.
  const bool hopper = properties.vendorID == 0x10DE && properties.deviceID >> 8 == 0x23;
  return hopper ? 90 : 0;
}

constexpr std::uint32_t kNvidia = 0x10DE;

struct Properties {
  VkPhysicalDeviceProperties2 core =
      structure<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
  VkPhysicalDeviceVulkan11Properties v11 =
      structure<VkPhysicalDeviceVulkan11Properties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES);
  VkPhysicalDeviceVulkan12Properties v12 =
      structure<VkPhysicalDeviceVulkan12Properties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES);
  VkPhysicalDeviceVulkan13Properties v13 =
      structure<VkPhysicalDeviceVulkan13Properties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES);
  VkPhysicalDeviceExternalMemoryHostPropertiesEXT host_memory =
      structure<VkPhysicalDeviceExternalMemoryHostPropertiesEXT>(
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT);
  VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nvidia = structure<VkPhysicalDeviceShaderSMBuiltinsPropertiesNV>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV);
  VkPhysicalDeviceShaderCorePropertiesAMD amd =
      structure<VkPhysicalDeviceShaderCorePropertiesAMD>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD);
};

const char* kind_name(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return "discrete";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return "integrated";
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return "software";
    default:
      return "virtual";
  }
}

int rank(const Adapter& adapter) {
  static constexpr const char* kinds[] = {"discrete", "integrated", "virtual", "software"};
  int kind = static_cast<int>(std::find(std::begin(kinds), std::end(kinds), adapter.info.kind) - std::begin(kinds));
  return kind + (adapter.info.rejected.empty() ? 0 : 4);
}

std::set<std::string> extensions_of(VkPhysicalDevice device) {
  std::uint32_t count = 0;
  vkEnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> found(count);
  vkEnumerateDeviceExtensionProperties(device, nullptr, &count, found.data());
  std::set<std::string> names;
  for (const auto& e : found) names.insert(e.extensionName);
  return names;
}

/// Finds one compute queue. NVIDIA's graphics queues leave kernels 48 KiB of shared memory per multiprocessor, its
/// compute queues all of it: on an H200 a workgroup of 33 KiB then shares its multiprocessor with three others, and a
/// gemm takes half the time. On other vendors the graphics and compute family is the best supported one.
bool find_queue(VkPhysicalDevice device, std::uint32_t vendor, std::uint32_t& family) {
  std::uint32_t count = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
  constexpr VkQueueFlags compute = VK_QUEUE_COMPUTE_BIT, both = compute | VK_QUEUE_GRAPHICS_BIT;
  for (VkQueueFlags wanted : {vendor == kNvidia ? compute : both, both, compute}) {
    for (family = 0; family < count; ++family) {
      if ((families[family].queueFlags & both) == wanted) return true;
    }
  }
  return false;
}

/// The features to enable: all that kernels may use, and none that cost speed (robust access).
Features wanted(const Features& has) {
  Features f;
  f.core.features.shaderInt64 = has.core.features.shaderInt64;
  f.core.features.shaderFloat64 = has.core.features.shaderFloat64;
  f.core.features.shaderInt16 = has.core.features.shaderInt16;
  f.v11.storageBuffer16BitAccess = has.v11.storageBuffer16BitAccess;
  f.v12.bufferDeviceAddress = has.v12.bufferDeviceAddress;
  f.v12.timelineSemaphore = has.v12.timelineSemaphore;
  f.v12.scalarBlockLayout = has.v12.scalarBlockLayout;
  f.v12.storageBuffer8BitAccess = has.v12.storageBuffer8BitAccess;
  f.v12.shaderFloat16 = has.v12.shaderFloat16;
  f.v12.shaderInt8 = has.v12.shaderInt8;
  f.v12.shaderSubgroupExtendedTypes = has.v12.shaderSubgroupExtendedTypes;
  f.v12.vulkanMemoryModel = has.v12.vulkanMemoryModel;
  f.v12.vulkanMemoryModelDeviceScope = has.v12.vulkanMemoryModelDeviceScope;
  f.v12.hostQueryReset = has.v12.hostQueryReset;
  f.v13.subgroupSizeControl = has.v13.subgroupSizeControl;
  f.v13.computeFullSubgroups = has.v13.computeFullSubgroups;
  f.v13.maintenance4 = has.v13.maintenance4;
  f.v13.shaderIntegerDotProduct = has.v13.shaderIntegerDotProduct;
  f.matrix.cooperativeMatrix = has.matrix.cooperativeMatrix;
  f.bfloat16 = has.bfloat16;
  f.matrix2 = has.matrix2;
  return f;
}

/// Multiprocessors or compute units, as reported by the vendor, otherwise a guess by kind.
std::uint32_t compute_units(const Adapter& adapter, const Properties& p) {
  if (p.nvidia.shaderSMCount) return p.nvidia.shaderSMCount;
  std::uint32_t amd = p.amd.shaderEngineCount * p.amd.shaderArraysPerEngineCount * p.amd.computeUnitsPerShaderArray;
  if (amd) return amd;
  if (adapter.info.kind == "software") return std::max(1u, std::thread::hardware_concurrency());
  return adapter.info.kind == "discrete" ? 32 : 8;
}

std::optional<MatrixElement> element(VkComponentTypeKHR type) {
  if (type == VK_COMPONENT_TYPE_FLOAT16_KHR) return MatrixElement::f16;
  if (type == VK_COMPONENT_TYPE_FLOAT32_KHR) return MatrixElement::f32;
  if (type == VK_COMPONENT_TYPE_BFLOAT16_KHR) return MatrixElement::bf16;
  if (type == VK_COMPONENT_TYPE_SINT8_KHR) return MatrixElement::i8;
  if (type == VK_COMPONENT_TYPE_SINT32_KHR) return MatrixElement::i32;
  return {};
}

/// The shapes of cooperative matrices whose element types shaders may use.
std::vector<MatrixShape> matrix_shapes(const Adapter& adapter) {
  std::vector<MatrixShape> shapes;
  auto ask = reinterpret_cast<PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR>(
      vkGetInstanceProcAddr(instance().handle, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
  if (!adapter.features.matrix.cooperativeMatrix || ask == nullptr) return shapes;
  std::uint32_t count = 0;
  ask(adapter.handle, &count, nullptr);
  std::vector<VkCooperativeMatrixPropertiesKHR> found(
      count, structure<VkCooperativeMatrixPropertiesKHR>(VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR));
  ask(adapter.handle, &count, found.data());
  for (const auto& p : found) {
    std::optional<MatrixElement> operands = element(p.AType), sums = element(p.CType);
    if (p.scope != VK_SCOPE_SUBGROUP_KHR || p.saturatingAccumulation || !operands || !sums) continue;
    if (p.AType != p.BType || p.CType != p.ResultType) continue;
    if (operands == MatrixElement::bf16 && !adapter.features.bfloat16.shaderBFloat16CooperativeMatrix) continue;
    if (operands == MatrixElement::i8 && !adapter.features.v12.shaderInt8) continue;
    shapes.push_back({p.MSize, p.NSize, p.KSize, *operands, *sums});
  }
  return shapes;
}

std::string gib(std::uint64_t bytes) { return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1u << 30)); }

void describe(Adapter& adapter) {
  const Capabilities& can = adapter.capabilities;
  auto feature = [&](bool there, const char* name) {
    if (there) adapter.info.features.push_back(name);
  };
  feature(can.float16, "float16");
  feature(adapter.features.v12.shaderInt8, "int8");
  feature(adapter.features.core.features.shaderInt16, "int16");
  feature(can.int64, "int64");
  feature(can.float64, "float64");
  feature(can.subgroup_arithmetic, "subgroup_arithmetic");
  feature(adapter.features.v12.vulkanMemoryModel, "memory_model");
  feature(adapter.features.v13.subgroupSizeControl, "subgroup_size_control");
  feature(can.packed_dot, "packed_dot");
  feature(can.cooperative_matrix, "cooperative_matrix");
  feature(can.cubin != 0, "cubin");
  feature(can.cooperative_matrix2, "cooperative_matrix2");
  feature(adapter.features.bfloat16.shaderBFloat16CooperativeMatrix, "bfloat16_matrix");
  std::uint32_t version = adapter.properties.apiVersion;
  adapter.info.limits = {
      fmt::format("Vulkan {}.{}.{}", VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version),
                  VK_API_VERSION_PATCH(version)),
      fmt::format("shared memory {} KiB", can.shared_memory_bytes / 1024),
      fmt::format("subgroup {}", can.subgroup_size),
      fmt::format("workgroup {}", can.max_workgroup_size),
      fmt::format("compute units {}", can.compute_units),
      fmt::format("push constants {} B", adapter.properties.limits.maxPushConstantsSize),
      fmt::format("largest allocation {}", gib(adapter.max_allocation)),
  };
}

Adapter inspect(VkPhysicalDevice handle) {
  Adapter a;
  a.handle = handle;
  vkGetPhysicalDeviceProperties(handle, &a.properties);
  vkGetPhysicalDeviceMemoryProperties(handle, &a.memory);
  a.info.name = a.properties.deviceName;
  a.info.kind = kind_name(a.properties.deviceType);
  for (std::uint32_t i = 0; i < a.memory.memoryHeapCount; ++i) {
    if (a.memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) {
      a.info.memory_bytes = std::max<std::uint64_t>(a.info.memory_bytes, a.memory.memoryHeaps[i].size);
    }
  }
  std::uint32_t version = a.properties.apiVersion;
  if (version < VK_API_VERSION_1_2) {
    a.info.rejected = fmt::format("its driver speaks Vulkan {}.{}, Etna needs 1.2", VK_API_VERSION_MAJOR(version),
                                  VK_API_VERSION_MINOR(version));
    return a;
  }
  a.v13 = version >= VK_API_VERSION_1_3 && instance().version >= VK_API_VERSION_1_3;
  std::set<std::string> extensions = extensions_of(handle);
  auto enable = [&](const char* name) {
    bool there = extensions.count(name) > 0;
    if (there) a.extensions.push_back(name);
    return there;
  };
  enable(VK_KHR_PORTABILITY_SUBSET_EXTENSION_NAME);
  a.memory_budget = enable(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  const bool shares_memory = a.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
                             a.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  const bool imports = shares_memory && enable(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  if (!enable(VK_EXT_CALIBRATED_TIMESTAMPS_EXTENSION_NAME)) enable("VK_KHR_calibrated_timestamps");
  std::uint32_t cubin = cubin_architecture(a.properties);
  if (cubin != 0 && !enable(VK_NVX_BINARY_IMPORT_EXTENSION_NAME)) cubin = 0;
  constexpr std::uint32_t kNvidia = 0x10DE;  // others have no CUDA
  a.exports_memory =
      a.properties.vendorID == kNvidia && enable("VK_KHR_external_memory_fd") && enable("VK_KHR_external_semaphore_fd");
  enable(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
  enable(VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME);
  enable(VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME);

  Features has;
  vkGetPhysicalDeviceFeatures2(handle, has.chain(a.v13, a.extensions));
  Properties p;
  void** end = &p.core.pNext;
  auto link = [&](auto& next) {
    *end = &next;
    end = &next.pNext;
  };
  link(p.v11);
  link(p.v12);
  if (a.v13) link(p.v13);
  if (imports) link(p.host_memory);
  if (extensions.count(VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) link(p.nvidia);
  if (extensions.count(VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME)) link(p.amd);
  vkGetPhysicalDeviceProperties2(handle, &p.core);

  a.features = wanted(has);
  // MoltenVK has the feature, but no stage whose subgroups take a size.
  if (a.v13 && (p.v13.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) == 0)
    a.features.v13.subgroupSizeControl = VK_FALSE;
  a.info.driver = fmt::format("{} {}", p.v12.driverName, p.v12.driverInfo);
  if (p.v12.shaderRoundingModeRTEFloat16) {
    a.half_conversion = p.v12.shaderDenormPreserveFloat16 ? HalfConversion::rounded : HalfConversion::normal;
  }
  std::copy(std::begin(p.v11.deviceUUID), std::end(p.v11.deviceUUID), a.uuid.begin());
  a.max_allocation = p.v11.maxMemoryAllocationSize;
  if (imports) a.host_import_alignment = p.host_memory.minImportedHostPointerAlignment;
  if (a.v13 && p.v13.maxBufferSize) a.max_allocation = std::min<std::uint64_t>(a.max_allocation, p.v13.maxBufferSize);
  const VkPhysicalDeviceLimits& limits = a.properties.limits;
  a.capabilities = {
      .float16 = a.features.v12.shaderFloat16 == VK_TRUE,
      .int64 = a.features.core.features.shaderInt64 == VK_TRUE,
      .float64 = a.features.core.features.shaderFloat64 == VK_TRUE,
      .packed_dot = a.features.v13.shaderIntegerDotProduct == VK_TRUE,
      .cooperative_matrix = a.features.matrix.cooperativeMatrix && a.features.v12.vulkanMemoryModel,
      .cubin = cubin,
      .cooperative_matrix2 = a.features.matrix2.cooperativeMatrixReductions &&
                             a.features.matrix2.cooperativeMatrixConversions &&
                             a.features.matrix2.cooperativeMatrixPerElementOperations,
      .matrix_shapes = matrix_shapes(a),
      .subgroup_arithmetic = (p.v11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
                             (p.v11.subgroupSupportedOperations & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT),
      .subgroup_size = p.v11.subgroupSize,
      .shared_memory_bytes = limits.maxComputeSharedMemorySize,
      .max_workgroup_size = limits.maxComputeWorkGroupInvocations,
      .max_subgroups = a.v13 && p.v13.maxComputeWorkgroupSubgroups > 0 ? p.v13.maxComputeWorkgroupSubgroups : 32,
      .compute_units = compute_units(a, p),
      .timestamp_period_ns = limits.timestampPeriod,
      .most_iterations = p.v12.driverID == VK_DRIVER_ID_MESA_LLVMPIPE ? 65535u : 0u,
  };
  describe(a);

  std::string missing = missing_features(has, p.v11);
  if (!missing.empty()) {
    a.info.rejected = fmt::format("its driver lacks {}", missing);
  } else if (!find_queue(handle, a.properties.vendorID, a.queue_family)) {
    a.info.rejected = "it has no queue that computes";
  }
  return a;
}

/// $ETNA_VISIBLE_DEVICES, or nullopt.
std::optional<std::string> visible_devices() {
  const char* value = std::getenv("ETNA_VISIBLE_DEVICES");
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::vector<Adapter> find_adapters() {
  std::vector<Adapter> found;
  if (!instance().handle) return found;
  std::uint32_t count = 0;
  if (vkEnumeratePhysicalDevices(instance().handle, &count, nullptr) != VK_SUCCESS) return found;
  std::vector<VkPhysicalDevice> handles(count);
  vkEnumeratePhysicalDevices(instance().handle, &count, handles.data());
  for (VkPhysicalDevice handle : handles) found.push_back(inspect(handle));
  std::stable_sort(found.begin(), found.end(), [](const Adapter& a, const Adapter& b) { return rank(a) < rank(b); });
  if (const std::optional<std::string> list = visible_devices()) {
    std::vector<Adapter> visible;
    for (const std::size_t i : visible_adapters(*list, found.size())) visible.push_back(found[i]);
    found = std::move(visible);
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    found[i].info.device = Device(DeviceType::vulkan, static_cast<int>(i));
  }
  return found;
}

}  // namespace

std::vector<std::size_t> visible_adapters(std::string_view list, std::size_t count) {
  std::vector<std::size_t> visible;
  if (list.empty() || list == "none") return visible;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    std::string_view entry = list.substr(begin, end - begin);
    begin = end + 1;
    if (entry.starts_with("vulkan:")) entry.remove_prefix(7);
    std::size_t index = 0;
    const auto [at, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
    if (entry.empty() || error != std::errc{} || at != entry.data() + entry.size()) {
      throw DeviceError(fmt::format(
          "ETNA_VISIBLE_DEVICES is '{}'; write numbers of devices with commas between, as 1,0, or none", list));
    }
    if (index >= count) {
      throw DeviceError(fmt::format("ETNA_VISIBLE_DEVICES is '{}', but {}", list,
                                    count == 0   ? "no Vulkan device is there"
                                    : count == 1 ? "the only Vulkan device is 0"
                                                 : fmt::format("the Vulkan devices are 0 to {}", count - 1)));
    }
    if (std::find(visible.begin(), visible.end(), index) != visible.end())
      throw DeviceError(fmt::format("ETNA_VISIBLE_DEVICES is '{}', which names {} twice", list, index));
    visible.push_back(index);
  }
  return visible;
}

std::string missing_features(const Features& has, const VkPhysicalDeviceVulkan11Properties& subgroups) {
  std::string missing;
  auto require = [&](VkBool32 there, const char* name) {
    if (!there) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  require(has.v12.bufferDeviceAddress, "bufferDeviceAddress");
  require(has.v12.timelineSemaphore, "timelineSemaphore");
  require(has.v12.scalarBlockLayout, "scalarBlockLayout");
  require(has.v12.storageBuffer8BitAccess, "storageBuffer8BitAccess");
  require(has.v11.storageBuffer16BitAccess, "storageBuffer16BitAccess");
  require((subgroups.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
              (subgroups.subgroupSupportedOperations & VK_SUBGROUP_FEATURE_BALLOT_BIT) != 0 &&
              (subgroups.subgroupSupportedOperations & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT) != 0 &&
              subgroups.subgroupSize >= 4 && subgroups.subgroupSize <= 128,
          "ballots and sums of subgroups of 4 to 128 lanes");
  return missing;
}

VkPhysicalDeviceFeatures2* Features::chain(bool with_v13, std::span<const std::string> extensions) {
  core.pNext = &v11;
  v11.pNext = &v12;
  void** end = &v12.pNext;
  auto link = [&](bool known, auto& next) {
    if (!known) return;
    *end = &next;
    end = &next.pNext;
  };
  auto has = [&](const char* name) {
    return std::find(extensions.begin(), extensions.end(), name) != extensions.end();
  };
  link(with_v13, v13);
  link(has(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME), matrix);
  link(has(VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME), bfloat16);
  link(has(VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME), matrix2);
  *end = nullptr;
  return &core;
}

bool Adapter::has_extension(const char* name) const {
  return std::find(extensions.begin(), extensions.end(), name) != extensions.end();
}

const std::vector<Adapter>& all_adapters() {
  static const auto* found = new std::vector<Adapter>(find_adapters());
  return *found;
}

const std::vector<AdapterInfo>& adapters() {
  static const auto* infos = [] {
    auto* list = new std::vector<AdapterInfo>;
    for (const Adapter& a : all_adapters()) list->push_back(a.info);
    return list;
  }();
  return *infos;
}

const std::string& why_no_adapters() {
  static const auto* why = [] {
    if (!all_adapters().empty()) return new std::string;
    if (const auto list = visible_devices(); list && instance().missing.empty())
      return new std::string(fmt::format("ETNA_VISIBLE_DEVICES is '{}', which hides all", *list));
    return new std::string(instance().missing.empty() ? "no Vulkan driver offers a device (the loader is there)"
                                                      : instance().missing);
  }();
  return *why;
}

}  // namespace etna::vulkan
