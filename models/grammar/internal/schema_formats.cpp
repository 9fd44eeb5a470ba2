#include <etna/models/grammar/internal/schema_formats.h>

#include <map>
#include <string>

namespace etna::models {
namespace {

using namespace std::string_literals;

std::string either(const std::string& a, const std::string& b) { return "(?:" + a + "|" + b + ")"; }

const std::map<std::string, std::string, std::less<>>& format_table() {
  static const auto table = [] {
    const std::string leap = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
    const std::string date =
        "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
        "02-(?:0[1-9]|1[0-9]|2[0-8]))|" +
        leap + "-02-29)";
    const std::string hour = "(?:[01][0-9]|2[0-3])";
    const std::string time = hour + ":[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+\\-]" + hour + ":[0-5][0-9])";
    const std::string of_time =
        either("[0-9]{1,9}H(?:[0-9]{1,9}M)?(?:[0-9]{1,9}S)?", either("[0-9]{1,9}M(?:[0-9]{1,9}S)?", "[0-9]{1,9}S"));
    const std::string of_date =
        either("[0-9]{1,9}Y(?:[0-9]{1,9}M)?(?:[0-9]{1,9}D)?", either("[0-9]{1,9}M(?:[0-9]{1,9}D)?", "[0-9]{1,9}D"));
    const std::string byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    const std::string ipv4 = byte + "(?:\\." + byte + "){3}";
    // Eight groups, or fewer around one "::".
    const std::string group = "[0-9a-fA-F]{1,4}";
    std::string ipv6 = "(?:" + group + ":){7}" + group;
    for (int before = 0; before <= 6; ++before) {
      const std::string left =
          before == 0 ? ""s : group + (before == 1 ? ""s : "(?::" + group + "){" + std::to_string(before - 1) + "}");
      const int after = 7 - before;
      ipv6 += "|" + left + "::(?:" + group + "(?::" + group + "){0," + std::to_string(after - 1) + "})?";
    }
    ipv6 += "|" + group + "(?::" + group + "){6}::";
    const std::string label = "[a-zA-Z0-9](?:[a-zA-Z0-9\\-]{0,61}[a-zA-Z0-9])?";
    const std::string host = label + "(?:\\." + label + "){0,2}";
    const std::string path = "[a-zA-Z0-9\\-._~!$&'()*+,;=:@]";
    const std::map<std::string, std::string, std::less<>> all = {
        {"date", date},
        {"time", time},
        {"date-time", date + "T" + time},
        {"duration", "P" + either("[0-9]{1,9}W", either(of_date + "(?:T" + of_time + ")?", "T" + of_time))},
        {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
        {"ipv4", ipv4},
        {"ipv6", ipv6},
        {"hostname", host},
        {"email", "[a-zA-Z0-9!#$%&'*+/=?_~\\-]{1,60}(?:\\.[a-zA-Z0-9!#$%&'*+/=?_~\\-]{1,30})?@" + label + "(?:\\." +
                      label + "){1,2}"},
        {"uri", "(?:https?|ftp)://" + host + "(?::[1-9][0-9]{0,3})?(?:/" + path + "{0,200}){0,20}(?:\\?" + path +
                    "{0,500})?(?:#" + path + "{0,200})?"}};
    return all;
  }();
  return table;
}

}  // namespace

std::string regex_of_format(std::string_view format) {
  const auto& table = format_table();
  const auto found = table.find(format);
  return found == table.end() ? "" : "^(?:" + found->second + ")$";
}

std::string known_formats() {
  std::string all;
  for (const auto& [name, expression] : format_table()) all += (all.empty() ? "" : ", ") + name;
  return all;
}

}  // namespace etna::models
