#include <bit>
#include <new>
#include <utility>

#include <fmt/format.h>

#include <etna/device/memory_control.h>
#include <etna/dist/dist.h>
#include <etna/dist/internal/group.h>
#include <etna/models/internal/generator_ranks.h>
#include <etna/models/internal/generator_slots.h>

// A divided model's generator whose calls the other ranks repeat.
namespace etna::models {
namespace {

using distributed::RankLost, distributed::RanksDiffer;

/// How long rank 0 calls nothing before the other ranks give cached memory back to the system.
constexpr double kIdleSeconds = 30;

distributed::Meeting& ranks_meeting() { return distributed::require_group("Generator").meeting(); }

std::uint64_t mixed(std::uint64_t state, std::uint64_t value) {
  return (std::rotl(state, 23) ^ value) * 0x9e3779b97f4a7c15u + 1;
}

RanksDiffer out_of_step(const char* what) {
  return RanksDiffer(
      fmt::format("distributed: rank {} {}, so that the texts of the ranks would differ; are they of one "
                  "build, on processors of one kind?",
                  distributed::rank(), what));
}

/// The grammar at rank 0. Other ranks wait for each answer.
class LeadingGrammar final : public TokenGrammar {
  template <typename Ask, typename Write>
  auto announced(Ask ask, Write write) {
    CallWriter out;
    out.put(RankCall::answer);
    try {
      const auto answer = ask();
      out.put(true);
      write(out, answer);
      ranks_meeting().announce(out.bytes());
      return answer;
    } catch (const distributed::RankLost&) {
      throw;
    } catch (const std::exception& error) {
      CallWriter failure;
      failure.put(RankCall::answer);
      failure.put(false);
      failure.put_all(std::span<const char>(std::string_view(error.what())));
      ranks_meeting().announce(failure.bytes());
      throw;
    }
  }

 public:
  LeadingGrammar(std::shared_ptr<TokenGrammar> whole, std::int64_t number)
      : whole_(std::move(whole)), number_(number) {}

  State next(State state, std::int32_t token) override {
    return announced([&] { return whole_->next(state, token); },
                     [](CallWriter& out, State answer) { out.put(answer); });
  }
  std::span<const std::uint32_t> allowed(State state) override {
    return announced([&] { return whole_->allowed(state); },
                     [](CallWriter& out, std::span<const std::uint32_t> answer) { out.put_all(answer); });
  }
  bool may_end(State state) override {
    return announced([&] { return whole_->may_end(state); }, [](CallWriter& out, bool answer) { out.put(answer); });
  }
  std::int64_t vocabulary() const override { return whole_->vocabulary(); }
  std::int64_t number() const { return number_; }

 private:
  const std::shared_ptr<TokenGrammar> whole_;
  const std::int64_t number_;
};

/// What another rank has of it: rank 0's answers.
class FollowingGrammar final : public TokenGrammar {
 public:
  explicit FollowingGrammar(std::int64_t vocabulary) : vocabulary_(vocabulary) {}

  State next(State, std::int32_t) override { return answer().get<State>(); }
  std::span<const std::uint32_t> allowed(State) override { return mask_ = answer().get_all<std::uint32_t>(); }
  bool may_end(State) override { return answer().get<bool>(); }
  std::int64_t vocabulary() const override { return vocabulary_; }

 private:
  static CallReader answer() {
    for (;;) {
      const std::optional<std::string> text = ranks_meeting().next_announcement(3600);
      if (!text) continue;
      CallReader in(*text);
      if (in.get<RankCall>() != RankCall::answer) throw out_of_step("asks a grammar that rank 0 does not ask");
      if (in.get<bool>()) return in;
      const std::vector<char> error = in.get_all<char>();
      throw Error(std::string(error.begin(), error.end()));
    }
  }

  const std::int64_t vocabulary_;
  std::vector<std::uint32_t> mask_;
};

}  // namespace

void CallReader::end_early() { throw out_of_step("cannot read what rank 0 announces"); }

bool is_of_one_rank(const std::exception& error) {
  const auto is = [&]<typename... Errors>(std::type_identity<Errors>...) {
    return (... || (dynamic_cast<const Errors*>(&error) != nullptr));
  };
  return is(std::type_identity<OutOfMemory>(), std::type_identity<DeviceError>(), std::type_identity<RankLost>(),
            std::type_identity<RanksDiffer>(), std::type_identity<std::bad_alloc>());
}

GenerationOptions Generator::Ranks::own(const GenerationOptions& options) {
  GenerationOptions own = options;
  if (!leads || options.grammar == nullptr) return own;
  std::erase_if(leading_, [](const auto& known) { return known.first.expired() || known.second.expired(); });
  std::weak_ptr<TokenGrammar>& known = leading_[options.grammar];
  own.grammar = known.lock();
  if (own.grammar != nullptr) return own;
  own.grammar = std::make_shared<LeadingGrammar>(options.grammar, grammars_++);
  known = own.grammar;
  return own;
}

/// Names all fields, so that one that comes later is not forgotten here.
void Generator::Ranks::write(CallWriter& out, const GenerationOptions& options) {
  const auto& [max_tokens, sampling, stop_tokens, endless, sinks, grammar, adapter, logprobs, images] = options;
  const auto& [temperature, top_k, top_p, min_p, typical_p, repetition_penalty, presence_penalty, frequency_penalty,
               logit_bias, seed] = sampling;
  if (images != nullptr) throw Error("Generator: a model that is divided over ranks reads no images");
  out.put(max_tokens);
  for (const double number :
       {temperature, top_p, min_p, typical_p, repetition_penalty, presence_penalty, frequency_penalty})
    out.put(number);
  out.put(top_k);
  const std::vector<std::pair<std::int32_t, float>> biases(logit_bias.begin(), logit_bias.end());
  out.put<std::uint64_t>(biases.size());
  for (const auto& [token, bias] : biases) {
    out.put(token);
    out.put(bias);
  }
  out.put(seed);
  out.put_all(std::span<const std::int32_t>(stop_tokens));
  out.put(endless);
  out.put(sinks);
  out.put(adapter);
  out.put(logprobs);
  out.put(grammar == nullptr ? std::int64_t{-1} : static_cast<const LeadingGrammar&>(*grammar).number());
  if (grammar != nullptr) out.put(grammar->vocabulary());
}

GenerationOptions Generator::Ranks::read_options(CallReader& in) {
  GenerationOptions options;
  SamplingOptions& sampling = options.sampling;
  in.get_to(options.max_tokens);
  for (double* number : {&sampling.temperature, &sampling.top_p, &sampling.min_p, &sampling.typical_p,
                         &sampling.repetition_penalty, &sampling.presence_penalty, &sampling.frequency_penalty})
    in.get_to(*number);
  in.get_to(sampling.top_k);
  for (auto left = in.get<std::uint64_t>(); left > 0; --left) {
    const auto token = in.get<std::int32_t>();
    in.get_to(sampling.logit_bias[token]);
  }
  in.get_to(sampling.seed);
  options.stop_tokens = in.get_all<std::int32_t>();
  in.get_to(options.endless);
  in.get_to(options.sinks);
  in.get_to(options.adapter);
  in.get_to(options.logprobs);
  const auto number = in.get<std::int64_t>();
  if (number < 0) return options;
  const auto vocabulary = in.get<std::int64_t>();
  std::erase_if(following_, [](const auto& known) { return known.second.expired(); });
  std::weak_ptr<TokenGrammar>& known = following_[number];
  options.grammar = known.lock();
  if (options.grammar == nullptr) known = options.grammar = std::make_shared<FollowingGrammar>(vocabulary);
  return options;
}

void Generator::Ranks::begin_call(RankCall call, const Write& write_call) {
  if (!failure_.empty())
    throw RankLost(fmt::format("distributed: rank {} did less than the others: {}", distributed::rank(), failure_));
  if (!leads) return;
  CallWriter out;
  out.put(call);
  out.put(state_);
  write_call(out);
  ranks_meeting().announce(out.bytes());
}

void Generator::Ranks::fails(const std::exception& error) {
  note(std::uint64_t{1} << 63);
  if (is_of_one_rank(error) && failure_.empty()) failure_ = error.what();
}

void Generator::Ranks::note(std::uint64_t value) { state_ = mixed(state_, value); }

void Generator::Ranks::note(const std::vector<GeneratedToken>& tokens) {
  for (const GeneratedToken& token : tokens) {
    note(token.sequence);
    note(static_cast<std::uint64_t>(token.token));
  }
}

CallReader Generator::Ranks::next(RankCall& call) const {
  for (;;) {
    std::optional<std::string> text = ranks_meeting().next_announcement(kIdleSeconds);
    if (!text) {
      trim_when_idle(kIdleSeconds);
      continue;
    }
    CallReader in(*text);
    in.get_to(call);
    if (call == RankCall::answer) throw out_of_step("did not ask a grammar that rank 0 asked");
    if (in.get<std::uint64_t>() != state_) throw out_of_step("gave something else than rank 0");
    return in;
  }
}

void Generator::Ranks::stop() {
  if (failure_.empty()) begin_call(RankCall::stop, [](CallWriter&) {});
}

void Generator::lead() {
  if (!model_.split.is_split() || distributed::rank() != 0 || model_.split.ranks != distributed::size())
    throw Error("Generator: lead() is for rank 0 of a model that all ranks share");
  if (!ranks_) ranks_ = std::make_unique<Ranks>(true);
}

void Generator::stop_leading() {
  if (!ranks_ || !ranks_->leads) return;
  ranks_->stop();
  ranks_.reset();
}

void Generator::follow() {
  if (!model_.split.is_split() || distributed::rank() == 0)
    throw Error("Generator: follow() is for the other ranks of a model that all ranks share; rank 0 calls lead()");
  ranks_ = std::make_unique<Ranks>(false);
  for (RankCall call{};;) {
    CallReader in = ranks_->next(call);
    if (call == RankCall::stop) break;
    try {
      repeat(call, in);
    } catch (const std::exception& error) {
      // Rank 0 throws the same otherwise, which the next call tells.
      if (is_of_one_rank(error)) throw;
    }
    steps_->ended.clear();
  }
  ranks_->open.clear();
  ranks_.reset();
}

void Generator::repeat(RankCall call, CallReader& in) {
  switch (call) {
    case RankCall::begin:
    case RankCall::join: {
      const auto prompt = in.get_all<std::int32_t>();
      const GenerationOptions options = ranks_->read_options(in);
      call == RankCall::begin ? begin(prompt, options) : join(prompt, options);
      break;
    }
    case RankCall::step:
      step();
      break;
    case RankCall::leave:
      leave(in.get<Id>());
      break;
    case RankCall::warm_up:
      warm_up();
      break;
    case RankCall::logits:
    case RankCall::hidden: {
      const auto tokens = in.get_all<std::int32_t>();
      const auto adapter = in.get<std::int64_t>();
      call == RankCall::logits ? logits(tokens, adapter) : hidden(tokens, adapter);
      break;
    }
    case RankCall::begin_text: {
      const auto tokens = in.get_all<std::int32_t>();
      const auto top = in.get<std::int64_t>(), adapter = in.get<std::int64_t>();
      auto text = std::make_unique<TextLogprobs>(*this, tokens, top, adapter);
      ranks_->open[ranks_->texts - 1] = std::move(text);
      break;
    }
    case RankCall::read_text:
      ranks_->open.at(in.get<std::int64_t>())->read();
      break;
    case RankCall::end_text:
      ranks_->open.erase(in.get<std::int64_t>());
      break;
    case RankCall::forget_prefixes:
      forget_prefixes();
      break;
    case RankCall::answer:
    case RankCall::stop:
      break;
  }
}

}  // namespace etna::models
