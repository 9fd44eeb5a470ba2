#include <etna/train/receipt.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/train/internal/json_depth.h>
#include <etna/train/internal/receipt_json.h>
#include <etna/train/progress.h>

namespace etna::training {
namespace {

/// The largest that is read. One with ten thousand kernels takes 2 MiB.
constexpr std::size_t kLargestReceipt = std::size_t{64} << 20;

using Type = ReceiptJson::value_t;

struct ReceiptField {
  const char* name;
  Type type;
};

constexpr ReceiptField kReceiptFields[] = {
    {"schema", Type::string},        {"program", Type::object},   {"command", Type::array},
    {"directory", Type::string},     {"time", Type::object},      {"device", Type::object},
    {"compute_path", Type::string},  {"totals", Type::object},    {"kernels", Type::array},
    {"fallbacks", Type::array},      {"references", Type::array}, {"composed", Type::array},
    {"transfers", Type::object},     {"memory", Type::object},    {"numbers", Type::object},
    {"seeds", Type::object},         {"files", Type::array},      {"machine", Type::object},
    {"content_sha256", Type::string}};

[[noreturn]] void refuse_receipt(const std::string& why) { throw FormatError(fmt::format("not a receipt: {}", why)); }

const char* word_of(Type type) {
  switch (type) {
    case Type::string:
      return "a string";
    case Type::object:
      return "an object";
    case Type::array:
      return "a list";
    case Type::boolean:
      return "true or false";
    default:
      return "a whole number of 0 or more";
  }
}

/// A field of that type. @param of "kernels[3]"
const ReceiptJson& field(const ReceiptJson& object, const char* name, Type type, const std::string& of) {
  const std::string full = of.empty() ? name : fmt::format("{}.{}", of, name);
  if (!object.is_object()) refuse_receipt(fmt::format("{} is not an object", of));
  const auto at = object.find(name);
  if (at == object.end()) refuse_receipt(fmt::format("{} is missing", full));
  if (at->type() != type) refuse_receipt(fmt::format("{} is not {}", full, word_of(type)));
  return *at;
}

std::uint64_t count_in(const ReceiptJson& object, const char* name, const std::string& of) {
  return field(object, name, Type::number_unsigned, of).get<std::uint64_t>();
}
std::string text_in(const ReceiptJson& object, const char* name, const std::string& of) {
  return field(object, name, Type::string, of).get<std::string>();
}

ReceiptJson parsed_receipt(std::string_view text) {
  if (text.size() > kLargestReceipt) refuse_receipt("it has more than 64 MiB");
  if (json_too_deep(text)) refuse_receipt("it is nested more than 100 deep");
  // Readers differ in which of two fields of a name they take, so a receipt has none.
  std::vector<std::set<std::string>> keys;
  std::string twice;
  const auto watch = [&](int, ReceiptJson::parse_event_t event, ReceiptJson& value) {
    using Event = ReceiptJson::parse_event_t;
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(value.get<std::string>()).second) twice = value.get<std::string>();
    return true;
  };
  ReceiptJson json = ReceiptJson::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  if (json.is_discarded()) refuse_receipt("it is no JSON, or cut");
  if (!json.is_object()) refuse_receipt("it is JSON, but no object");
  const auto schema = json.find(kSchemaKey);
  if (schema == json.end() || !schema->is_string()) refuse_receipt("it has no \"schema\"");
  if (*schema != kReceiptSchema)
    refuse_receipt(fmt::format("its schema is '{}', this program reads '{}'", shortened(schema->get<std::string>(), 40),
                               kReceiptSchema));
  if (!twice.empty()) refuse_receipt(fmt::format("it has two fields '{}'", shortened(twice, 40)));
  for (const ReceiptField& f : kReceiptFields) field(json, f.name, f.type, "");
  const ReceiptJson& selected = field(json["device"], "selected", Type::object, "device");
  text_in(selected, "device", "device.selected");
  text_in(selected, "name", "device.selected");
  for (const char* name : {"name", "version", "commit"}) text_in(json["program"], name, "program");
  return json;
}

/// Adds up rows; sums that wrap around are no totals of any run.
ReceiptTotals summed(const ReceiptJson& receipt) {
  ReceiptTotals totals;
  const auto add = [](std::uint64_t& sum, std::uint64_t value, const std::string& of) {
    if (sum + value < sum) refuse_receipt(fmt::format("{}: the counts are too large", of));
    sum += value;
  };
  const std::string device = receipt["device"]["selected"]["device"].get<std::string>();
  for (std::size_t i = 0; i < receipt["kernels"].size(); ++i) {
    const ReceiptJson& row = receipt["kernels"][i];
    const std::string of = fmt::format("kernels[{}]", i);
    const std::uint64_t eager = count_in(row, "eager", of), replayed = count_in(row, "replayed", of);
    for (const char* name : {"kernel", "op", "path", "variant"}) text_in(row, name, of);
    add(totals.eager, eager, of);
    add(totals.replayed, replayed, of);
    add(totals.launches, count_in(row, "launches", of), of);
    if (text_in(row, "device", of) == device) {
      add(totals.on_selected, eager, of);
      add(totals.on_selected, replayed, of);
    }
  }
  for (const auto& [list, sum] : {std::pair{"fallbacks", &totals.fallbacks}, {"references", &totals.references}}) {
    for (std::size_t i = 0; i < receipt[list].size(); ++i) {
      const std::string of = fmt::format("{}[{}]", list, i);
      add(*sum, count_in(receipt[list][i], "eager", of), of);
      add(*sum, count_in(receipt[list][i], "replayed", of), of);
      text_in(receipt[list][i], "op", of);
    }
  }
  return totals;
}

bool is_software(const ReceiptJson& receipt) {
  const ReceiptJson& selected = receipt["device"]["selected"];
  const auto software = selected.find("software");
  return software != selected.end() && *software == true;
}

void check_totals(const ReceiptJson& receipt, std::vector<std::string>& mismatches) {
  const ReceiptTotals sums = summed(receipt);
  const std::pair<const char*, std::uint64_t> wanted[] = {
      {"eager", sums.eager},         {"replayed", sums.replayed},
      {"launches", sums.launches},   {"on_selected_device", sums.on_selected},
      {"fallbacks", sums.fallbacks}, {"references", sums.references}};
  for (const auto& [name, sum] : wanted) {
    const std::uint64_t stated = count_in(receipt["totals"], name, "totals");
    if (stated != sum) mismatches.push_back(fmt::format("totals: {} is {}, the rows add up to {}", name, stated, sum));
  }
  const std::string path = receipt["compute_path"].get<std::string>();
  const std::string now = compute_path(sums, is_software(receipt));
  if (path != now)
    mismatches.push_back(fmt::format("compute_path: is '{}', the counts say '{}'", shortened(path, 40), now));
}

/// Where a file is now.
std::filesystem::path place_of(const std::string& recorded, const std::string& directory, const FilePath& root) {
  const std::filesystem::path path = FilePath(recorded);
  if (root.empty()) return std::filesystem::path(FilePath(directory)) / path;
  const std::filesystem::path moved = std::filesystem::path(root) / path.relative_path();
  std::error_code none;
  return std::filesystem::exists(moved, none) ? moved : std::filesystem::path(root) / path.filename();
}

void check_files(const ReceiptJson& receipt, const FilePath& root, ReceiptCheck& check) {
  for (std::size_t i = 0; i < receipt["files"].size(); ++i) {
    const ReceiptJson& row = receipt["files"][i];
    const std::string of = fmt::format("files[{}]", i);
    const std::string role = text_in(row, "role", of), path = text_in(row, "path", of);
    const std::string hash = text_in(row, "sha256", of);
    const std::uint64_t bytes = count_in(row, "bytes", of);
    const FilePath place = place_of(path, receipt["directory"].get<std::string>(), root);
    const std::size_t before = check.mismatches.size();
    const auto differs = [&](const std::string& why) {
      check.mismatches.push_back(fmt::format("{} {}: {}", shortened(role, 40), shortened(place.string(), 200), why));
    };
    if (row.contains("changed_during_run")) differs("it was changed while the run read it");
    std::uint64_t now = 0;
    try {
      const std::string digits = hash_of_file(place, now);
      if (now != bytes) {
        differs(fmt::format("it has {} bytes, the receipt says {}", now, bytes));
      } else if (digits != hash) {
        differs(fmt::format("its SHA-256 is {}, the receipt says {}", digits, shortened(hash, 64)));
      }
    } catch (const FormatError& error) {
      check.mismatches.push_back(fmt::format("{} {}", shortened(role, 40), shortened(error.what(), 300)));
    }
    if (check.mismatches.size() == before) ++check.files;
  }
}

/// A field of any type as text; empty where it is missing.
std::string shown_field(const ReceiptJson& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end() || at->is_null()) return "";
  return at->is_string() ? at->get<std::string>() : at->dump();
}

}  // namespace

ReceiptCheck check_receipt(std::string_view text, const ReceiptCheckOptions& options) {
  const ReceiptJson receipt = parsed_receipt(text);
  ReceiptCheck check;
  if (content_hash_of(receipt) != receipt[kHashKey].get<std::string>())
    check.mismatches.emplace_back("content: its SHA-256 differs; the receipt was changed after it was written");
  check_totals(receipt, check.mismatches);
  check_files(receipt, options.root, check);
  const auto note = [&](const char* what, const std::string& then, const std::string& now) {
    if (then != now && !now.empty() && !then.empty())
      check.notes.push_back(fmt::format("{}: {} then, {} now", what, shortened(then, 100), shortened(now, 100)));
  };
  const ReceiptJson& program = receipt["program"];
  note("version", shown_field(program, "version"), options.version);
  if (program_commit() != "unknown") note("commit", shown_field(program, "commit"), program_commit());
  const ReceiptJson machine = this_machine();
  for (const char* name : {"cpu", "threads", "system", "kernel"})
    note(name, shown_field(receipt["machine"], name), shown_field(machine, name));
  return check;
}

std::string receipt_summary(std::string_view text) {
  const ReceiptJson receipt = parsed_receipt(text);
  const ReceiptTotals sums = summed(receipt);
  const ReceiptJson& selected = receipt["device"]["selected"];
  const auto line = [](const char* what, const std::string& value) {
    return value.empty() ? "" : fmt::format("{:<14}{}\n", what, shortened(value, 160));
  };
  std::string command;
  for (const ReceiptJson& argument : receipt["command"])
    command += (command.empty() ? "" : " ") + (argument.is_string() ? argument.get<std::string>() : argument.dump());
  const ReceiptJson& program = receipt["program"];
  std::string shown = line("program", fmt::format("{} {}, commit {}", shown_field(program, "name"),
                                                  shown_field(program, "version"), shown_field(program, "commit")));
  shown += line("command", command);
  std::string request;
  if (const auto given = receipt.find("request"); given != receipt.end() && given->is_object())
    for (const auto& [name, value] : given->items())
      request += fmt::format("{}{} {}", request.empty() ? "" : ", ", name, shown_field(*given, name.c_str()));
  shown += line("request", request);
  shown += line("time", fmt::format("{}, {} s", shown_field(receipt["time"], "begin"),
                                    shown_field(receipt["time"], "wall_seconds")));
  const std::string driver = shown_field(selected, "driver");
  shown += line("device", fmt::format("{} {}{}{}", selected["device"].get<std::string>(),
                                      selected["name"].get<std::string>(), driver.empty() ? "" : ", ", driver));
  shown += line("compute path", receipt["compute_path"].get<std::string>());
  shown += line("kernels", fmt::format("{} eager, {} replayed, {} of them on {}; {} fallbacks, {} references",
                                       sums.eager, sums.replayed, sums.on_selected,
                                       selected["device"].get<std::string>(), sums.fallbacks, sums.references));
  std::vector<const ReceiptJson*> rows;
  for (const ReceiptJson& row : receipt["kernels"]) rows.push_back(&row);
  const auto runs_of = [](const ReceiptJson& row) {
    return row["eager"].get<std::uint64_t>() + row["replayed"].get<std::uint64_t>();
  };
  std::stable_sort(rows.begin(), rows.end(), [&](auto* a, auto* b) { return runs_of(*a) > runs_of(*b); });
  constexpr std::size_t kShown = 8;
  for (std::size_t i = 0; i < std::min(rows.size(), kShown); ++i) {
    const ReceiptJson& row = *rows[i];
    shown += fmt::format("  {:>10}  {:<28} {:<10} {}\n", runs_of(row), shortened(shown_field(row, "kernel"), 28),
                         shortened(shown_field(row, "device"), 10), shortened(shown_field(row, "path"), 40));
  }
  if (rows.size() > kShown) shown += fmt::format("  and {} more\n", rows.size() - kShown);
  for (const char* list : {"fallbacks", "references"})
    for (const ReceiptJson& row : receipt[list])
      shown += line(list, fmt::format("{} on {}", shown_field(row, "op"), shown_field(row, "device")));
  for (const auto& [name, value] : receipt["numbers"].items())
    if (value.is_primitive()) shown += fmt::format("  {:<38}{}\n", shortened(name, 37), shortened(value.dump(), 100));
  for (const ReceiptJson& file : receipt["files"])
    shown += line(shortened(shown_field(file, "role"), 12).c_str(),
                  fmt::format("{} {}", shown_field(file, "sha256").substr(0, 16), shown_field(file, "path")));
  const ReceiptJson& machine = receipt["machine"];
  shown += line("machine", fmt::format("{}, {} threads, {}", shown_field(machine, "cpu"),
                                       shown_field(machine, "threads"), shown_field(machine, "system")));
  return shown;
}

}  // namespace etna::training
