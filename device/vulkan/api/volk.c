// The loader of Vulkan's functions: nothing links against libvulkan, which is opened at run time where it exists.
#include <volk.c>
