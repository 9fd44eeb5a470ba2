#include <etna/train/report.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/device/output_file.h>
#include <etna/train/internal/json_depth.h>
#include <etna/train/internal/markup.h>

namespace etna::training {
namespace {

constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
)";

constexpr const char* kStyle = R"(<style>
:root{--ink:#1f2328;--soft:#59636e;--edge:#d8dee4;--paper:#ffffff;--page:#f6f8fa;--accent:#0969da}
@media (prefers-color-scheme:dark){
:root{--ink:#e6edf3;--soft:#9198a1;--edge:#30363d;--paper:#0d1117;--page:#010409;--accent:#58a6ff}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);line-height:1.5;
font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1200px;margin:0 auto;padding:32px 24px 64px}
h1{margin:0;font-size:28px;line-height:1.25;overflow-wrap:anywhere}
h2{margin:36px 0 12px;font-size:18px}
.note{margin:6px 0 0;color:var(--soft);overflow-wrap:anywhere}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(170px,1fr));gap:12px;margin:24px 0 0;padding:0}
.figures div{background:var(--paper);border:1px solid var(--edge);border-radius:8px;padding:12px 14px}
.figures dt{color:var(--soft);font-size:13px}
.figures dd{margin:2px 0 0;font-size:19px;font-weight:600;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.figures .long dd{font-size:15px}
.grid{display:grid;grid-template-columns:minmax(0,1fr);gap:16px}
.card{background:var(--paper);border:1px solid var(--edge);border-radius:8px;overflow-x:auto}
figure.card{margin:0;padding:8px}
figure.card svg,figure.card img{display:block;width:100%;height:auto}
table{border-collapse:collapse;width:100%;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:7px 14px;text-align:left;vertical-align:top;overflow-wrap:anywhere}
tr+tr>*,tbody>tr:first-child>*{border-top:1px solid var(--edge)}
.pairs tr:first-child>*{border-top:0}
thead th{color:var(--soft);font-weight:500}
.pairs th{color:var(--soft);font-weight:500;width:36%}
.number{text-align:right}
pre,blockquote{margin:0;padding:14px 16px;white-space:pre-wrap;overflow-wrap:anywhere;font-size:14px}
pre{font-family:ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace;font-size:13px}
blockquote{font-family:Georgia,"DejaVu Serif",serif;font-size:16px;line-height:1.65}
mark{background:none;color:var(--accent)}
@media (min-width:1000px){.grid{grid-template-columns:repeat(2,minmax(0,1fr))}
.grid .wide,.grid>:only-child{grid-column:1/-1}}
@media (max-width:560px){main{padding:20px 12px 40px}h1{font-size:23px}
.figures{grid-template-columns:repeat(2,minmax(0,1fr));gap:8px}}
@media print{body{background:none}.card,.figures div{break-inside:avoid}}
</style>
)";

bool looks_like_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.,-+e% ") == std::string::npos;
}

std::string element(const char* name, const std::string& text) {
  return fmt::format("<{0}>{1}</{0}>", name, escape_markup(text));
}

class Page {
 public:
  explicit Page(const RunReport& report) : report_(report) {}

  std::string text() {
    const std::string title = report_.title.empty() ? "Training run" : report_.title;
    out_ = kHead + element("title", title) + "\n" + kStyle + "</head>\n<body>\n<main>\n<header>" + element("h1", title);
    if (!report_.note.empty()) out_ += fmt::format("<p class=\"note\">{}</p>", escape_markup(report_.note));
    out_ += "</header>\n";
    figures();
    curves();
    for (const RunReport::Table& table : report_.tables) add(table);
    sample();
    profile();
    settings();
    return out_ + "</main>\n</body>\n</html>\n";
  }

 private:
  void figures() {
    if (report_.summary.empty()) return;
    out_ += "<dl class=\"figures\">\n";
    for (const auto& [name, value] : report_.summary) {
      out_ += fmt::format("<div{}>{}{}</div>\n", value.size() > 14 ? " class=\"long\"" : "", element("dt", name),
                          element("dd", value));
    }
    out_ += "</dl>\n";
  }

  void curves() {
    if (report_.curves.empty()) return;
    out_ += "<h2>Curves</h2>\n<div class=\"grid\">\n";
    for (const RunReport::Curves& curves : report_.curves)
      out_ += "<figure class=\"card\">\n" + svg_plot(curves.series, curves.options) + "</figure>\n";
    out_ += "</div>\n";
  }

  void add(const RunReport::Table& table) {
    if (table.rows.empty()) return;
    out_ += element("h2", table.title.empty() ? "Evaluations" : table.title);
    out_ += "\n<div class=\"card\"><table>\n<thead><tr>";
    // A column is a column of numbers if the first row says so.
    const auto cell = [&](const char* kind, std::size_t column, const std::string& text) {
      const bool number = column < table.rows[0].size() && looks_like_number(table.rows[0][column]);
      out_ += fmt::format("<{0}{1}>{2}</{0}>", kind, number ? " class=\"number\"" : "", escape_markup(text));
    };
    for (std::size_t i = 0; i < table.head.size(); ++i) cell("th", i, table.head[i]);
    out_ += "</tr></thead>\n<tbody>\n";
    for (const auto& row : table.rows) {
      out_ += "<tr>";
      for (std::size_t i = 0; i < row.size(); ++i) cell("td", i, row[i]);
      out_ += "</tr>\n";
    }
    out_ += "</tbody></table></div>\n";
  }

  void sample() {
    if (report_.prompt.empty() && report_.sample.empty()) return;
    out_ += "<h2>Sample</h2>\n<div class=\"card\"><blockquote>";
    if (!report_.prompt.empty()) out_ += element("mark", report_.prompt);
    // Line breaks at the ends would be empty space.
    std::string_view sample = report_.sample;
    while (!sample.empty() && (sample.back() == '\n' || sample.back() == '\r')) sample.remove_suffix(1);
    while (report_.prompt.empty() && !sample.empty() && (sample[0] == '\n' || sample[0] == '\r'))
      sample.remove_prefix(1);
    out_ += escape_markup(sample) + "</blockquote></div>\n";
  }

  /// As an image, so that nothing in it can run or ask for something.
  void profile() {
    if (report_.profile_svg.empty()) return;
    out_ += fmt::format(
        "<h2>Profile</h2>\n<figure class=\"card\"><img alt=\"profile\" "
        "src=\"data:image/svg+xml;base64,{}\"></figure>\n",
        base64(report_.profile_svg));
  }

  void settings() {
    const bool json = !report_.config_json.empty();
    if (!report_.config.empty() || json) {
      out_ += "<h2>Configuration</h2>\n<div class=\"grid\">\n";
      pairs(report_.config);
      if (json) {
        const std::string& text = report_.config_json;
        const auto parsed =
            json_too_deep(text) ? nlohmann::ordered_json() : nlohmann::ordered_json::parse(text, nullptr, false);
        // Values inside of values are shown as text.
        if (parsed.is_object()) {
          RunReport::Pairs flat;
          for (const auto& item : parsed.items()) {
            const auto& value = item.value();
            flat.emplace_back(item.key(), value.is_string() ? value.get<std::string>() : value.dump());
          }
          pairs(flat);
        } else {
          out_ += "<div class=\"card wide\">" + element("pre", text) + "</div>\n";
        }
      }
      out_ += "</div>\n";
    }
    if (report_.environment.empty()) return;
    out_ += "<h2>Environment</h2>\n<div class=\"grid\">\n";
    pairs(report_.environment);
    out_ += "</div>\n";
  }

  /// Long lists become two columns on a wide page.
  void pairs(const RunReport::Pairs& all) {
    const std::size_t half = all.size() > 5 ? (all.size() + 1) / 2 : all.size();
    for (std::size_t begin = 0; begin < all.size(); begin += half) {
      out_ += "<div class=\"card\"><table class=\"pairs\">\n";
      for (std::size_t i = begin; i < std::min(begin + half, all.size()); ++i)
        out_ += "<tr>" + element("th", all[i].first) + element("td", all[i].second) + "</tr>\n";
      out_ += "</table></div>\n";
    }
  }

  const RunReport& report_;
  std::string out_;
};

enum class Kind { loss, perplexity, rate, speed, other };

Kind kind_of(const std::string& name) {
  const auto has = [&](const char* word) { return name.find(word) != std::string::npos; };
  if (name == "lr" || has("learning_rate")) return Kind::rate;
  if (has("perplexity") || has("ppl")) return Kind::perplexity;
  if (has("tokens_per_second") || has("tokens/s") || has("tokens_s")) return Kind::speed;
  return has("loss") && !has("loss_scale") && !has("loss scale") ? Kind::loss : Kind::other;
}

/// What is left after the steep beginning, which presses the rest of a picture flat; empty if it does not.
std::vector<Series> after_the_first_tenth(const std::vector<Series>& series) {
  struct Range {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    void add(double value) {
      if (!std::isfinite(value)) return;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  } x, y, later_y;
  for (const Series& one : series) {
    for (const PlotPoint& point : one.points) x.add(point.x), y.add(point.y);
  }
  std::vector<Series> later;
  std::size_t points = 0;
  for (const Series& one : series) {
    later.push_back({one.name, {}});
    for (const PlotPoint& point : one.points) {
      if (!(point.x >= x.low + 0.1 * (x.high - x.low))) continue;
      later.back().points.push_back(point);
      later_y.add(point.y);
      ++points;
    }
  }
  if (points < 20 || !(later_y.high - later_y.low < 0.5 * (y.high - y.low))) later.clear();
  return later;
}

}  // namespace

std::vector<RunReport::Curves> curves_of(const Metrics& metrics) {
  std::vector<RunReport::Curves> all;
  std::vector<std::vector<Series>> kinds(5);
  std::vector<Series> by_name(metrics.names().size());
  for (std::size_t i = 0; i < by_name.size(); ++i) by_name[i].name = metrics.names()[i];
  for (const Metrics::Row& row : metrics.rows()) {
    for (const auto& [column, value] : row.values)
      by_name[column].points.push_back({static_cast<double>(row.step), value});
  }
  for (Series& series : by_name) {
    const auto kind = static_cast<std::size_t>(kind_of(series.name));
    kinds[kind].push_back(std::move(series));
  }
  const auto add = [&](const char* title, Kind kind) {
    std::vector<Series>& series = kinds[static_cast<std::size_t>(kind)];
    if (!series.empty()) all.push_back({std::move(series), {.title = title, .x_label = "step"}});
  };
  std::vector<Series> later = after_the_first_tenth(kinds[static_cast<std::size_t>(Kind::loss)]);
  add("Loss", Kind::loss);
  if (!later.empty()) all.push_back({std::move(later), {.title = "Loss, without the first tenth", .x_label = "step"}});
  add("Perplexity", Kind::perplexity);
  add("Learning rate", Kind::rate);
  add("Tokens per second", Kind::speed);
  for (Series& series : kinds[static_cast<std::size_t>(Kind::other)]) {
    const std::string title = series.name;
    all.push_back({{std::move(series)}, {.title = title, .x_label = "step"}});
  }
  return all;
}

std::string html_report(const RunReport& report) { return Page(report).text(); }

void write_report(const FilePath& folder, const RunReport& report) {
  io::write_file(folder / "report.html", html_report(report));
}

}  // namespace etna::training
