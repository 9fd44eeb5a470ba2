#include <etna/device/profile/profile.h>

#include <etna/device/internal/atomic_file.h>
#include <etna/device/output_file.h>
#include <etna/device/profile/internal/chrome_trace.h>

namespace etna::profile {

void require_trace_writable(const std::string& path) { io::require_writable(path); }

std::vector<std::string> trace_marks(const std::string& path) {
  return {path.ends_with(".svg") ? kTracePictureMark : kChromeTraceMark};
}

void write_trace(const Profile& profile, const std::string& path) {
  io::write_file(path, path.ends_with(".svg") ? trace_picture(profile) : chrome_trace(profile));
}

}  // namespace etna::profile
