#include <etna/tensor/io/internal/xxh3.h>

#ifdef ETNA_HAS_XXHASH
#include <xxhash.h>
#endif

namespace etna::io {

#ifdef ETNA_HAS_XXHASH

struct Xxh3::State {
  State() { XXH3_64bits_reset(hash.get()); }
  void add(const void* bytes, std::size_t count) { XXH3_64bits_update(hash.get(), bytes, count); }
  std::uint64_t value() const { return XXH3_64bits_digest(hash.get()); }

  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash{XXH3_createState(), XXH3_freeState};
};

#else

struct Xxh3::State : PlainXxh3 {};

#endif

Xxh3::Xxh3() : state_(std::make_unique<State>()) {}
Xxh3::~Xxh3() = default;
Xxh3::Xxh3(Xxh3&&) noexcept = default;
Xxh3& Xxh3::operator=(Xxh3&&) noexcept = default;

void Xxh3::add(const void* bytes, std::size_t count) {
  if (count > 0) state_->add(bytes, count);
}
std::uint64_t Xxh3::value() const { return state_->value(); }

}  // namespace etna::io
