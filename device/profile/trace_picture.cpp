#include <etna/device/profile/profile.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <etna/device/profile/internal/gpu_lanes.h>

namespace etna::profile {
namespace {

constexpr double kLeft = 112, kWidth = 1060, kRow = 22, kTop = 44;
constexpr int kMostGpuLanes = 4;

struct Kind {
  const char* name;
  const char* color;
  const char* text = "#000";
};
constexpr Kind kStep{"step", "#d9d9d9"}, kPhase{"phase", "#bdbdbd"}, kNode{"autograd node", "#b9a38f"},
    kProduct{"matrix product", "#4e79a7", "#fff"}, kAttention{"attention", "#b07aa1", "#fff"},
    kOther{"other op", "#76b7b2"}, kTransfer{"transfer", "#f28e2b"}, kSubmit{"submit", "#edc948"},
    kWait{"wait", "#e15759", "#fff"};

const Kind& kind_of_op(const char* name) {
  const std::string_view op = name;
  if (is_product(name)) return kProduct;
  if (is_attention(name)) return kAttention;
  return op == "upload" || op == "download" ? kTransfer : kOther;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '<' || c == '&') {
      out += c == '<' ? "&lt;" : "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

class Picture {
 public:
  explicit Picture(const Profile& profile) : profile_(profile) {
    std::vector<const HostSpan*> steps;
    for (const HostSpan& span : profile.host) {
      if (span.category == Category::step) steps.push_back(&span);
    }
    begin_ = profile.begin;
    end_ = std::max(profile.end, begin_ + 1);
    if (steps.empty()) return;
    const std::size_t middle = (steps.size() - 1) / 2;
    thread_ = steps[middle]->thread;
    begin_ = steps[middle]->begin;
    end_ = std::max(begin_ + 1, steps[std::min(middle + 1, steps.size() - 1)]->end);
  }

  std::string svg() {
    host();
    for (const GpuProfile& gpu : profile_.gpus) add_gpu(gpu);
    axis();
    legend();
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"etna-trace\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
               "width=\"{0:.0f}\" "
               "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n"
               "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
               kLeft + kWidth + 16, y_ + 8) +
           body_ + "</svg>\n";
  }

 private:
  double x(std::int64_t ns) const {
    const auto at = static_cast<double>(std::clamp(ns, begin_, end_) - begin_);
    return kLeft + kWidth * at / static_cast<double>(end_ - begin_);
  }

  void row(std::string_view label) {
    put("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>\n", kLeft - 6, y_ + 14, escaped(label));
    last_ = -1;
  }
  void next_row() { y_ += kRow; }

  /// Draws a bar, with its name if it fits. Bars that would cover the same pixel are drawn once.
  void bar(const char* name, const Kind& kind, std::int64_t from, std::int64_t to) {
    if (to <= begin_ || from >= end_) return;
    const double a = x(from), b = std::max(x(to), a + 0.25);
    if (b - last_ < 0.25) return;
    last_ = b;
    used_[kind.name] = kind.color;
    const double gap = b - a > 3 ? 0.5 : 0;  // separates neighbours
    put("<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\"/>", a, y_, b - a - gap,
        kRow - 4, kind.color);
    const auto fits = static_cast<std::size_t>(std::max(0.0, (b - a - 6) / 6.2));
    if (fits >= std::string_view(name).size()) {
      put("<text x=\"{:.1f}\" y=\"{:.0f}\" fill=\"{}\">{}</text>", a + 3, y_ + 13, kind.text, escaped(name));
    }
    body_ += '\n';
  }

  template <typename F>
  void host_row(const char* label, F&& kind_of) {
    row(label);
    std::int64_t free_from = 0;  // inner spans of the same row are drawn below their outer one
    for (const HostSpan& span : profile_.host) {
      const Kind* kind = span.thread == thread_ ? kind_of(span) : nullptr;
      if (kind == nullptr || span.begin < free_from) continue;
      free_from = span.end;
      bar(span.name, *kind, span.begin, span.end);
    }
    next_row();
  }

  void host() {
    auto only = [](Category category, const Kind& kind) {
      return [category, &kind](const HostSpan& s) { return s.category == category ? &kind : nullptr; };
    };
    host_row("host: steps", only(Category::step, kStep));
    host_row("phases", only(Category::phase, kPhase));
    host_row("autograd", only(Category::autograd, kNode));
    host_row("ops", [](const HostSpan& s) { return s.category == Category::op ? &kind_of_op(s.name) : nullptr; });
    if (profile_.gpus.empty()) return;
    host_row("submit, wait", [](const HostSpan& s) -> const Kind* {
      if (s.category == Category::wait) return &kWait;
      return std::string_view(s.name) == "submit" ? &kSubmit : nullptr;
    });
  }

  void add_gpu(const GpuProfile& gpu) {
    if (gpu.spans.empty()) return;
    const std::vector<int> lanes = gpu_lanes(gpu);
    const int count = std::min(kMostGpuLanes, 1 + *std::max_element(lanes.begin(), lanes.end()));
    y_ += 6;
    for (int lane = 0; lane < count; ++lane) {
      row(lane == 0 ? "GPU " + gpu.device.str() : "");
      for (std::size_t i = 0; i < gpu.spans.size(); ++i) {
        if (lanes[i] == lane)
          bar(gpu.spans[i].name, kind_of_op(gpu.spans[i].name), gpu.spans[i].begin, gpu.spans[i].end);
      }
      next_row();
    }
  }

  void axis() {
    const double span_us = static_cast<double>(end_ - begin_) * 1e-3;
    double tick = 1;
    while (span_us / tick > 12) tick *= span_us / tick > 60 ? 10 : span_us / tick > 24 ? 5 : 2;
    for (double at = 0; at <= span_us; at += tick) {
      const double px = kLeft + kWidth * at / span_us;
      put("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.0f}\" y2=\"{2:.0f}\" stroke=\"#000\" stroke-opacity=\"0.12\"/>"
          "<text x=\"{0:.1f}\" y=\"{3:.0f}\" text-anchor=\"middle\" fill=\"#555\">{4}</text>\n",
          px, kTop - 4, y_, kTop - 10, tick >= 1000 ? fmt::format("{:g} ms", at / 1000) : fmt::format("{:g} us", at));
    }
  }

  void legend() {
    y_ += 6;
    double at = kLeft;
    for (const auto& [name, color] : used_) {
      put("<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{:.0f}\" "
          "y=\"{:.0f}\">{}</text>\n",
          at, y_ + 2, color, at + 16, y_ + 12, name);
      at += 34 + 6.2 * static_cast<double>(name.size());
    }
    next_row();
  }

  template <typename... T>
  void put(fmt::format_string<T...> format, T&&... values) {
    body_ += fmt::format(format, std::forward<T>(values)...);
  }

  const Profile& profile_;
  std::int64_t begin_ = 0, end_ = 1;
  std::uint32_t thread_ = 0;
  double y_ = kTop;
  double last_ = -1;  ///< end of the row's last bar
  std::map<std::string, std::string> used_;
  std::string body_;
};

}  // namespace

std::string trace_picture(const Profile& profile) { return Picture(profile).svg(); }

}  // namespace etna::profile
