#pragma once

#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <etna/dist/dist.h>
#include <etna/models/generator.h>
#include <etna/models/grammar/grammar.h>

/// Calls of rank 0's generator, which those of the other ranks repeat. Internal.
///
/// Each call is announced before it runs, with all that it depends on; rank 0 does not wait. Everything else is the
/// same on all ranks: what the cache holds, which sequences run, and the tokens, which are rank 0's. Two things are
/// not. A grammar is at rank 0 alone: it announces each answer of it in the middle of a call. And memory may end in one
/// rank: then the ranks have done different things, and the group is of no use.
namespace etna::models {

/// What a generator is asked to do that changes it, or needs other ranks.
enum class RankCall : std::uint8_t {
  begin,
  join,
  step,
  leave,
  warm_up,
  logits,
  hidden,
  begin_text,
  read_text,
  end_text,
  forget_prefixes,
  answer,  ///< of a grammar, within a call
  stop
};

/// A call, or an answer of a grammar, as bytes. All ranks are of one build.
class CallWriter {
 public:
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <typename T>
  void put_all(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    put<std::uint64_t>(values.size());
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class CallReader {
 public:
  explicit CallReader(std::string_view bytes) : bytes_(bytes.begin(), bytes.end()) {}
  /// @throws distributed::RanksDiffer where there is nothing more
  template <typename T>
  T get() {
    T value{};
    take(&value, sizeof value);
    return value;
  }
  template <typename T>
  void get_to(T& value) {
    value = get<T>();
  }
  template <typename T>
  std::vector<T> get_all() {
    const auto count = get<std::uint64_t>();
    if (count > bytes_.size() / sizeof(T)) end_early();
    std::vector<T> values(static_cast<std::size_t>(count));
    take(values.data(), values.size() * sizeof(T));
    return values;
  }

 private:
  [[noreturn]] static void end_early();
  void take(void* to, std::size_t bytes) {
    if (bytes > bytes_.size() - at_) end_early();
    if (bytes > 0) std::memcpy(to, bytes_.data() + at_, bytes);
    at_ += bytes;
  }

  std::vector<char> bytes_;
  std::size_t at_ = 0;
};

/// Whether an error may come in one rank alone: memory, a device, another rank.
bool is_of_one_rank(const std::exception& error);

struct Generator::Ranks {
  using Write = std::function<void(CallWriter&)>;

  explicit Ranks(bool leads) : leads(leads) {}

  const bool leads;                                            ///< this is rank 0
  std::int64_t texts = 0;                                      ///< TextLogprobs that began
  std::map<std::int64_t, std::unique_ptr<TextLogprobs>> open;  ///< those on other ranks than 0

  /// The same with a grammar that announces its answers, if this is rank 0.
  GenerationOptions own(const GenerationOptions& options);
  static void write(CallWriter& out, const GenerationOptions& options);
  GenerationOptions read_options(CallReader& in);

  /// Announces a call on rank 0, does it, and notes what it gave.
  template <typename Work>
  auto run(const Generator& generator, RankCall call, const Write& write_call, Work work) {
    begin_call(call, write_call);
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<Work>>) {
        work();
        note(static_cast<std::uint64_t>(generator.running()));
      } else {
        auto result = work();
        note(result);
        note(static_cast<std::uint64_t>(generator.running()));
        return result;
      }
    } catch (const std::exception& error) {
      fails(error);
      throw;
    }
  }
  /// The next call that is to be repeated. @throws distributed::RankLost; RanksDiffer
  CallReader next(RankCall& call) const;
  void stop();

 private:
  void begin_call(RankCall call, const Write& write_call);
  void fails(const std::exception& error);
  void note(std::uint64_t value);
  void note(Id id) { note(static_cast<std::uint64_t>(id)); }
  void note(bool more) { note(static_cast<std::uint64_t>(more)); }
  void note(const Tensor& x) { note(static_cast<std::uint64_t>(x.numel())); }
  void note(const std::vector<GeneratedToken>& tokens);

  std::string failure_;      ///< of this rank alone, after which it may call nothing
  std::uint64_t state_ = 0;  ///< a digest of what all calls so far gave
  std::int64_t grammars_ = 0;
  std::map<std::weak_ptr<TokenGrammar>, std::weak_ptr<TokenGrammar>, std::owner_less<>> leading_;
  std::map<std::int64_t, std::weak_ptr<TokenGrammar>> following_;
};

/// Does a call, which the other ranks repeat where there are some. @param write what it depends on
template <typename Write, typename Work>
auto Generator::on_all_ranks(RankCall call, Write write, Work work) {
  return ranks_ ? ranks_->run(*this, call, write, work) : work();
}

}  // namespace etna::models
