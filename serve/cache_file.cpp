#include <etna/serve/cache_file.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/serve/api_error.h>
#include <etna/serve/endpoints.h>
#include <etna/serve/fields.h>
#include <etna/serve/service.h>

namespace etna::serve {
namespace {

namespace fs = std::filesystem;

/// Whether a process that is not this one runs.
bool another_runs(int process) { return process != ::getpid() && (::kill(process, 0) == 0 || errno == EPERM); }

/// Of "prefixes.safetensors.4711-0.tmp" 4711: the process that writes, or wrote, the file; 0 for other names.
int writer_of(const std::string& name, const std::string& file) {
  if (!name.starts_with(file + ".") || !name.ends_with(".tmp")) return 0;
  const std::string middle = name.substr(file.size() + 1, name.size() - file.size() - 5);
  const std::size_t dash = middle.find('-');
  const auto number = [](const std::string& text) {
    return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
  };
  if (dash == std::string::npos || !number(middle.substr(0, dash)) || !number(middle.substr(dash + 1))) return 0;
  return std::stoi(middle);
}

/// While one lives, files are made for this user alone: what is cached are conversations.
class PrivateFiles {
 public:
  PrivateFiles() : before_(::umask(077)) {}
  ~PrivateFiles() { ::umask(before_); }
  PrivateFiles(const PrivateFiles&) = delete;

 private:
  const mode_t before_;
};

void remove_left_overs(const fs::path& file) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::vector<fs::path> left;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const int writer = writer_of(at->path().filename().string(), file.filename().string());
    if (writer > 0 && !another_runs(writer)) left.push_back(at->path());
  }
  for (const fs::path& path : left) fs::remove(path, error);
}

}  // namespace

std::int64_t load_cache_file(const ServedModel& model) {
  remove_left_overs(model.cache_file);
  std::error_code none;
  if (!fs::exists(model.cache_file, none) || fs::is_empty(model.cache_file, none)) return 0;
  return model.generator->load_cache(model.cache_file);
}

std::int64_t save_cache_file(const ServedModel& model) {
  const PrivateFiles only_ours;
  model.generator->save_cache(model.cache_file);
  return model.generator->cache().stats().cached;
}

HttpReply answer_save_slots(Service& service, const HttpRequest& request) {
  const Json body = parse_json(request.body);
  Fields fields(body, "");
  const ServedModel& model = service.model(service.model_index(fields.string_if("model").value_or("")));
  fields.finish();
  if (model.cache_file.empty())
    throw bad_request("", "this server saves no prefixes; start it with --cache-file FILE", "no_cache_file");
  std::int64_t blocks = 0;
  service.engine().run(request.client, [&] { blocks = save_cache_file(model); });
  return {.body = json_text({{"model", model.name}, {"blocks", blocks}})};
}

}  // namespace etna::serve
