#include <etna/device/internal/webgpu/javascript.h>

#include <cstdlib>

#include <emscripten.h>
#include <emscripten/em_js.h>

// The bodies are JavaScript. Addresses come as signed numbers where they are above 2 GiB, hence `>>> 0`; those of the
// heap come as doubles, which hold them all.
// clang-format off
EM_JS_DEPS(etna_webgpu, "$stringToNewUTF8,$UTF8ToString,$addRunDependency,$removeRunDependency");
EM_JS(int, etna_webgpu_is_open, (), { return Module.etna_webgpu ? 1 : 0; });
EM_JS(char*, etna_webgpu_facts, (), { return stringToNewUTF8(JSON.stringify(Module.etna_webgpu.facts())); });
// Asked for at each submit and read, and nearly always empty: null then, for which nothing is allocated.
EM_JS(char*, etna_webgpu_lost, (), {
  const text = Module.etna_webgpu.lost;
  return text ? stringToNewUTF8(text) : 0;
});
EM_JS(char*, etna_webgpu_take_error, (), {
  const text = Module.etna_webgpu.take_error();
  return text ? stringToNewUTF8(text) : 0;
});
EM_ASYNC_JS(int, etna_webgpu_grow, (double bytes), { return await Module.etna_webgpu.grow(bytes) ? 1 : 0; });
EM_JS(void, etna_webgpu_write, (double address, const void* from, size_t bytes), {
  Module.etna_webgpu.write(address, HEAPU8.subarray(from >>> 0, (from >>> 0) + (bytes >>> 0)));
});
EM_JS(char*, etna_webgpu_missing, (const char* kernel), {
  return stringToNewUTF8(Module.etna_webgpu.missing(UTF8ToString(kernel)));
});
EM_JS(unsigned, etna_webgpu_pipeline,
      (const char* kernel, const void* constants, size_t count, const char* op), {
  const values = HEAPU32.slice(constants >>> 2, (constants >>> 2) + count);
  return Module.etna_webgpu.pipeline(UTF8ToString(kernel), values, UTF8ToString(op));
});
EM_JS(void, etna_webgpu_define_fused, (const char* kernel, const char* text), {
  Module.etna_webgpu.define_fused(UTF8ToString(kernel), UTF8ToString(text));
});
EM_JS(int, etna_webgpu_building, (), { return Module.etna_webgpu.building; });
EM_ASYNC_JS(char*, etna_webgpu_finish_building, (), {
  return stringToNewUTF8(await Module.etna_webgpu.finish_building());
});
EM_JS(void, etna_webgpu_submit, (const void* commands, size_t count, const void* blocks, size_t bytes), {
  Module.etna_webgpu.submit(HEAPU32.subarray(commands >>> 2, (commands >>> 2) + 5 * count),
                            HEAPU8.subarray(blocks >>> 0, (blocks >>> 0) + bytes));
});
EM_JS(unsigned, etna_webgpu_make_program, (const void* blocks, size_t bytes), {
  return Module.etna_webgpu.make_program(HEAPU8.subarray(blocks >>> 0, (blocks >>> 0) + bytes));
});
EM_JS(void, etna_webgpu_run_program, (unsigned program, const void* commands, size_t count), {
  Module.etna_webgpu.run_program(program, HEAPU32.subarray(commands >>> 2, (commands >>> 2) + 5 * count));
});
EM_JS(void, etna_webgpu_drop_program, (unsigned program), { Module.etna_webgpu.drop_program(program); });
EM_JS(size_t, etna_webgpu_in_flight, (), { return Module.etna_webgpu.in_flight; });
EM_ASYNC_JS(void, etna_webgpu_finish_oldest, (), { await Module.etna_webgpu.finish_oldest(); });
EM_ASYNC_JS(void, etna_webgpu_finish, (), { await Module.etna_webgpu.finish(); });
EM_JS(unsigned, etna_webgpu_start_read, (double first, size_t bytes, double second, size_t more), {
  const ranges = [[first, bytes >>> 0], [second, more >>> 0]].filter((range) => range[1] > 0);
  return Module.etna_webgpu.start_read(...ranges);
});
EM_ASYNC_JS(int, etna_webgpu_is_read, (unsigned read), { return await Module.etna_webgpu.is_read(read) ? 1 : 0; });
EM_ASYNC_JS(char*, etna_webgpu_finish_read, (unsigned read, void* first, size_t bytes, void* second, size_t more), {
  const size = bytes >>> 0;
  const failed = await Module.etna_webgpu.finish_read(read, (data) => {
    HEAPU8.set(data.subarray(0, size), first >>> 0);
    HEAPU8.set(data.subarray(size, size + (more >>> 0)), second >>> 0);
  });
  return stringToNewUTF8(failed);
});
EM_JS(void, etna_webgpu_drop_read, (unsigned read), { Module.etna_webgpu.drop_read(read); });
// clang-format on

namespace etna::webgpu::javascript {
namespace {

/// Takes a string that JavaScript allocated; null is an empty one.
std::string taken(char* text) {
  if (text == nullptr) return {};
  std::string copy(text);
  std::free(text);
  return copy;
}

}  // namespace

bool is_open() { return etna_webgpu_is_open() != 0; }
std::string facts() { return taken(etna_webgpu_facts()); }
std::string lost() { return taken(etna_webgpu_lost()); }
std::string take_error() { return taken(etna_webgpu_take_error()); }

bool grow(std::size_t bytes) { return etna_webgpu_grow(static_cast<double>(bytes)) != 0; }
void write(std::uint64_t address, std::span<const std::byte> bytes) {
  etna_webgpu_write(static_cast<double>(address), bytes.data(), bytes.size());
}

std::string missing(const std::string& kernel) { return taken(etna_webgpu_missing(kernel.c_str())); }
std::uint32_t pipeline(const std::string& kernel, std::span<const std::uint32_t> constants, const std::string& op) {
  return etna_webgpu_pipeline(kernel.c_str(), constants.data(), constants.size(), op.c_str());
}
void define_fused(const std::string& kernel, const std::string& text) {
  etna_webgpu_define_fused(kernel.c_str(), text.c_str());
}
bool building() { return etna_webgpu_building() != 0; }
std::string finish_building() { return taken(etna_webgpu_finish_building()); }

void submit(std::span<const EncodedDispatch> commands, std::span<const std::byte> blocks) {
  etna_webgpu_submit(commands.data(), commands.size(), blocks.data(), blocks.size());
}
std::uint32_t make_program(std::span<const std::byte> blocks) {
  return etna_webgpu_make_program(blocks.data(), blocks.size());
}
void run_program(std::uint32_t program, std::span<const EncodedDispatch> commands) {
  etna_webgpu_run_program(program, commands.data(), commands.size());
}
void drop_program(std::uint32_t program) { etna_webgpu_drop_program(program); }

std::size_t in_flight() { return etna_webgpu_in_flight(); }
void finish_oldest() { etna_webgpu_finish_oldest(); }
void finish() { etna_webgpu_finish(); }

std::uint32_t start_read(const HeapRange& first, const HeapRange& second) {
  return etna_webgpu_start_read(static_cast<double>(first.address), first.bytes, static_cast<double>(second.address),
                                second.bytes);
}
bool is_read(std::uint32_t read) { return etna_webgpu_is_read(read) != 0; }
std::string finish_read(std::uint32_t read, std::span<std::byte> first, std::span<std::byte> second) {
  return taken(etna_webgpu_finish_read(read, first.data(), first.size(), second.data(), second.size()));
}
void drop_read(std::uint32_t read) { etna_webgpu_drop_read(read); }

}  // namespace etna::webgpu::javascript
