#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <etna/serve/answer_syntax.h>

/// Calls of tools in the text of an answer, as far as it has come. Internal.
namespace etna::serve {

constexpr std::string_view kDeepseekCalls =
                               "<\xEF\xBD\x9Ctool\xE2\x96\x81"
                               "calls\xE2\x96\x81"
                               "begin\xEF\xBD\x9C>",
                           kDeepseekCall =
                               "<\xEF\xBD\x9Ctool\xE2\x96\x81"
                               "call\xE2\x96\x81"
                               "begin\xEF\xBD\x9C>",
                           kDeepseekSeparator = "<\xEF\xBD\x9Ctool\xE2\x96\x81sep\xEF\xBD\x9C>";

/// The strings that begin a call, and those that may follow its arguments, in this order.
std::vector<std::string> call_openers(const AnswerSyntax& syntax);
std::vector<std::string> call_closers(CallForm form);

enum class Outcome : unsigned char {
  incomplete,  ///< more text decides
  malformed,   ///< no call
  begins,      ///< the name is known, and the arguments begin
  whole,       ///< a whole call, arguments included
};

/// The tags around arguments that are no JSON: a call is pairs of keys and values, and an end.
struct ArgumentTags {
  std::string_view key_open, key_close, value_open, value_close, call_close;
  bool lines = false;  ///< a value is on lines of its own, whose ends are no part of it
};
constexpr ArgumentTags kFunctionTags{"<parameter=", ">", "", "</parameter>", "</function>", true},
    kGlmKeys{"<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>"};

/// What a text that may be a call is.
struct CallHead {
  Outcome outcome = Outcome::incomplete;
  std::string name;
  std::string arguments;               ///< whole: JSON
  std::size_t end = 0;                 ///< begins: where the arguments begin; whole: behind the call
  const ArgumentTags* tags = nullptr;  ///< begins: the arguments are in such tags; null: JSON
  bool object = false;                 ///< begins: the arguments are a field of an object, which goes on behind them
  bool list = false;                   ///< the call is an element of a list
};

/// Reads the beginning of a call, behind its opener (for bare JSON: from its '{').
/// @param opener which of call_openers() it was; empty: the next element of a list
CallHead read_call_head(const AnswerSyntax& syntax, std::string_view opener, std::string_view text);

/// Follows a JSON value byte by byte up to its end.
class JsonEnd {
 public:
  /// @return true for the byte that ends an object, an array or a string
  bool push(char c);

 private:
  int depth_ = 0;
  bool quoted_ = false, escaped_ = false;
};

/// The length of white space at the beginning.
std::size_t white_space(std::string_view text);

/// What follows the arguments of a call.
struct CallTail {
  bool incomplete = false;
  std::size_t end = 0;   ///< behind what belongs to the call
  std::size_t next = 0;  ///< where another element of the list begins; 0: there is none
};
/// @param final no more text comes
CallTail read_call_tail(CallForm form, const CallHead& head, std::string_view text, bool final);

}  // namespace etna::serve
