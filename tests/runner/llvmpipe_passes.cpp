#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <string>
#include <vector>

// llvmpipe, the software rasterizer that tests run on, makes a coroutine of each kernel: LLVM splits it into parts that
// begin it, resume it behind a barrier and destroy it. GALLIVM_PERF=nopt, which the tests set, leaves out the pass that
// finds most of the third part dead, so that LLVM generates code of the whole kernel once more, which never runs.
// Programs come first where a driver's calls are resolved: it calls the function below in place of LLVM's, which adds
// that pass. What asks for other passes gets what it asks for.

extern "C" void* LLVMRunPasses(void* module, const char* passes, void* target, void* options);

namespace {

using RunPasses = void* (*)(void* module, const char* passes, void* target, void* options);

/// The function of that name of a library that is loaded.
RunPasses of_llvm() {
  std::vector<std::string> libraries;
  const auto add = [](dl_phdr_info* info, std::size_t, void* list) {
    static_cast<std::vector<std::string>*>(list)->emplace_back(info->dlpi_name);
    return 0;
  };
  dl_iterate_phdr(add, &libraries);
  for (const std::string& name : libraries) {
    void* library = name.empty() ? nullptr : dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    const auto found = reinterpret_cast<RunPasses>(dlsym(library, "LLVMRunPasses"));
    if (found != nullptr && found != &LLVMRunPasses) return found;
    dlclose(library);
  }
  return nullptr;
}

}  // namespace

extern "C" void* LLVMRunPasses(void* module, const char* passes, void* target, void* options) {
  static const RunPasses run = of_llvm();
  if (run == nullptr) return nullptr;  // no error; the kernel is the slower
  return run(module, std::strcmp(passes, "mem2reg") == 0 ? "function(mem2reg,simplifycfg,early-cse)" : passes, target,
             options);
}
