#include <etna/device/internal/vulkan/api/instance.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <etna/device/internal/log.h>
#include <etna/device/internal/vulkan/api/diagnostics.h>
#include <etna/device/internal/vulkan/api/types.h>

namespace etna::vulkan {
namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";
std::atomic<std::uint64_t> messages{0};

bool asked_for_validation() {
  const char* value = std::getenv("ETNA_VALIDATION");
  return value && *value && std::strcmp(value, "0") != 0;
}

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                          VkDebugUtilsMessageTypeFlagsEXT,
                                          const VkDebugUtilsMessengerCallbackDataEXT* data, void*) {
  // Layers of 2023 miss signals of a semaphore that a thread waits for and signals, wait ten seconds, and say that this
  // is most likely a fault of theirs.
  const std::string_view id = data->pMessageIdName != nullptr ? data->pMessageIdName : "";
  if (id == "UNASSIGNED-VkSemaphore-state-timeout") return VK_FALSE;
  ++messages;
  bool error = severity & VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  if (error)
    log().error("validation: {}", data->pMessage);
  else
    log().warn("validation: {}", data->pMessage);
  return VK_FALSE;
}

bool has_layer(std::string_view name) {
  std::uint32_t count = 0;
  vkEnumerateInstanceLayerProperties(&count, nullptr);
  std::vector<VkLayerProperties> layers(count);
  vkEnumerateInstanceLayerProperties(&count, layers.data());
  return std::any_of(layers.begin(), layers.end(), [&](const auto& layer) { return name == layer.layerName; });
}

bool has_extension(std::string_view name, const char* layer) {
  std::uint32_t count = 0;
  vkEnumerateInstanceExtensionProperties(layer, &count, nullptr);
  std::vector<VkExtensionProperties> extensions(count);
  vkEnumerateInstanceExtensionProperties(layer, &count, extensions.data());
  return std::any_of(extensions.begin(), extensions.end(), [&](const auto& e) { return name == e.extensionName; });
}

Instance make_instance() {
  Instance made;
  if (volkInitialize() != VK_SUCCESS || !vkCreateInstance) {
    made.missing = "no Vulkan loader (libvulkan.so.1) was found";
    return made;
  }
  std::uint32_t loader = volkGetInstanceVersion();
  if (loader < VK_API_VERSION_1_2) {
    made.missing = fmt::format("the Vulkan loader speaks {}.{}, Etna needs 1.2", VK_API_VERSION_MAJOR(loader),
                               VK_API_VERSION_MINOR(loader));
    return made;
  }
  made.version = std::min<std::uint32_t>(loader, VK_API_VERSION_1_3);

  std::vector<const char*> layers, extensions;
  auto info = structure<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
  if (has_extension(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME, nullptr)) {
    extensions.push_back(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
    info.flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
  }

  // Type VALIDATION covers core and synchronization messages; GENERAL is the loader's talk about other drivers.
  auto messenger =
      structure<VkDebugUtilsMessengerCreateInfoEXT>(VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT);
  messenger.messageSeverity =
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  messenger.pfnUserCallback = on_message;
  const VkValidationFeatureEnableEXT checks[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
  auto features = structure<VkValidationFeaturesEXT>(VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT);
  features.pNext = &messenger;
  features.enabledValidationFeatureCount = 1;
  features.pEnabledValidationFeatures = checks;
  if (asked_for_validation()) {
    made.validation = has_layer(kValidationLayer) &&
                      has_extension(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME, kValidationLayer) &&
                      has_extension(VK_EXT_DEBUG_UTILS_EXTENSION_NAME, kValidationLayer);
    if (made.validation) {
      layers.push_back(kValidationLayer);
      extensions.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
      extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
      info.pNext = &features;
    } else {
      log().warn("ETNA_VALIDATION=1, but {} is not installed: nothing is validated", kValidationLayer);
    }
  }

  auto application = structure<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
  application.pEngineName = "Etna";
  application.apiVersion = made.version;
  info.pApplicationInfo = &application;
  info.enabledLayerCount = static_cast<std::uint32_t>(layers.size());
  info.ppEnabledLayerNames = layers.data();
  info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  VkResult result = vkCreateInstance(&info, nullptr, &made.handle);
  if (result != VK_SUCCESS) {
    made.handle = VK_NULL_HANDLE;
    made.missing = result == VK_ERROR_INCOMPATIBLE_DRIVER ? "no Vulkan driver was found (the loader is there)"
                                                          : fmt::format("vkCreateInstance failed: {}", str(result));
    return made;
  }
  volkLoadInstanceOnly(made.handle);
  if (made.validation) {
    VkDebugUtilsMessengerEXT handle = VK_NULL_HANDLE;
    vkCreateDebugUtilsMessengerEXT(made.handle, &messenger, nullptr, &handle);
  }
  return made;
}

}  // namespace

const Instance& instance() {
  static const Instance* made = new Instance(make_instance());
  return *made;
}

std::uint64_t validation_messages() { return messages; }
bool validation_enabled() { return instance().validation; }

}  // namespace etna::vulkan
