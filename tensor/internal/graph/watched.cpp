#include <etna/tensor/internal/graph/watched.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include <fmt/format.h>

namespace etna {
namespace {

std::atomic<std::uint64_t> changes{1};

std::int64_t watched_value(const std::int64_t& setting) { return setting; }
std::int64_t watched_value(const TensorImpl& leaf) { return leaf.requires_grad ? 1 : 0; }
void set_watched(std::int64_t& setting, std::int64_t value) { setting = value; }
void set_watched(TensorImpl& leaf, std::int64_t value) { leaf.requires_grad = value != 0; }

}  // namespace

void capture_hooks::changed() { changes.fetch_add(1, std::memory_order_relaxed); }

template <typename Owner>
Watched::Value<Owner>* Watched::Values<Owner>::note(const std::shared_ptr<Owner>& owner, capture_hooks::Touch touch,
                                                    std::int64_t now) {
  const bool write = touch == capture_hooks::Touch::write;
  const auto [at, made] = places.try_emplace(owner, list.size());
  if (!made) {
    list[at->second].written |= write;
    return nullptr;
  }
  list.push_back({.owner = owner, .what = {}, .read_first = !write, .written = write, .before = now});
  return &list.back();
}

template <typename Owner>
void Watched::Values<Owner>::end() {
  places.clear();
  std::erase_if(list, [](const auto& value) { return value.owner.expired(); });
  for (auto& value : list) value.after = watched_value(*value.owner.lock());
}

template <typename Owner>
std::string Watched::Values<Owner>::difference() const {
  for (const auto& value : list) {
    const std::shared_ptr<Owner> owner = value.read_first ? value.owner.lock() : nullptr;
    if (owner == nullptr) continue;
    if (const std::int64_t now = watched_value(*owner); now != value.before) return value.what(now);
  }
  return {};
}

void Watched::note(const capture_hooks::Setting& setting, capture_hooks::Touch touch, capture_hooks::Described what) {
  if (auto* made = settings_.note(setting, touch, *setting)) made->what = std::move(what);
}

void Watched::note_requires_grad(const Tensor& leaf, capture_hooks::Touch touch) {
  auto* made = leaves_.note(leaf.impl_ptr(), touch, watched_value(*leaf.impl()));
  if (made == nullptr) return;
  made->what = [shape = leaf.shape()](std::int64_t now) {
    return fmt::format("a tensor {} {} now", str(shape), now != 0 ? "requires grad" : "does not require grad");
  };
}

void Watched::end() {
  settings_.end();
  leaves_.end();
}

std::string Watched::difference() const {
  for (const auto& check : guards_) {
    if (std::string why = check(); !why.empty()) return why;
  }
  const std::uint64_t now = changes.load(std::memory_order_relaxed);
  if (now == seen_) return {};
  std::string why = settings_.difference();
  if (why.empty()) why = leaves_.difference();
  if (why.empty()) seen_ = now;
  return why;
}

bool Watched::gone() const {
  return std::any_of(settings_.list.begin(), settings_.list.end(), [](const auto& s) { return s.owner.expired(); });
}

void Watched::write() const {
  const auto all = [](const auto& values) {
    for (const auto& value : values.list) {
      const auto owner = value.written ? value.owner.lock() : nullptr;
      if (owner == nullptr || watched_value(*owner) == value.after) continue;
      set_watched(*owner, value.after);
      capture_hooks::changed();
    }
  };
  all(settings_);
  all(leaves_);
}

}  // namespace etna
