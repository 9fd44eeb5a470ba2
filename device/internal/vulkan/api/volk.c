// Loads Vulkan's functions: nothing links against libvulkan, which is opened at run time if it exists.
#include <volk.c>
