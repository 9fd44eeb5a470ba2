#include <etna/data/token_hash.h>

#include <xxhash.h>

namespace etna::data {

TokenHash::TokenHash() : state_(XXH3_createState()) { XXH3_64bits_reset(state_.get()); }

void TokenHash::add(const void* bytes, std::size_t count) {
  if (count > 0) XXH3_64bits_update(state_.get(), bytes, count);
}

void TokenHash::add(std::string_view text) {
  add(static_cast<std::uint64_t>(text.size()));
  add(text.data(), text.size());
}

std::uint64_t TokenHash::value() const { return XXH3_64bits_digest(state_.get()); }

void TokenHash::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

}  // namespace etna::data
