#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include <etna/device/internal/log.h>
#include <etna/nn/internal/module_hooks.h>
#include <etna/nn/internal/module_identity.h>
#include <etna/nn/module.h>

// Where modules are: how the registry follows modules that move, and which members nobody registered.
namespace etna::nn {
namespace {

constexpr std::ptrdiff_t kLargestObject = 1 << 20;  ///< bytes; members are nearer to their module than this
constexpr std::ptrdiff_t kGap = 4096;               ///< bytes from the last registered member to another one

std::ptrdiff_t distance(const void* from, const void* to) {
  return static_cast<std::ptrdiff_t>(reinterpret_cast<std::intptr_t>(to) - reinterpret_cast<std::intptr_t>(from));
}

/// Modules of this thread that may not be registered anywhere, in the order of their construction.
std::vector<std::weak_ptr<ModuleIdentity>>& unclaimed() {
  struct Modules {
    std::vector<std::weak_ptr<ModuleIdentity>> list;
    std::size_t limit = 64;  ///< at which those that are gone or registered leave the list
  };
  thread_local Modules of_thread;
  auto& [list, limit] = of_thread;
  if (list.size() >= limit) {
    std::erase_if(list, [](const auto& entry) {
      const auto alive = entry.lock();
      return alive == nullptr || alive->registered;
    });
    limit = 2 * list.size() + 64;
  }
  return list;
}

std::atomic<std::uint64_t> modules_made = 0;

bool first_time(const std::string& text) {
  static std::mutex mutex;
  static std::unordered_set<std::string> told;
  const std::lock_guard lock(mutex);
  return told.insert(text).second;
}

}  // namespace

Module::Module() : identity_(std::make_shared<ModuleIdentity>()) {
  identity_->module = this;
  identity_->number = ++modules_made;
  unclaimed().push_back(identity_);
}

Module::~Module() {
  for (Module* holder : holders_)
    std::erase_if(holder->modules_, [&](const auto& entry) { return entry.second == this; });
  for (const auto& entry : modules_) std::erase(entry.second->holders_, this);
}

Module::Module(Module&& other) : Module() { take(other); }

Module& Module::operator=(Module&& other) {
  if (this != &other) take(other);
  return *this;
}

/// @throws Error if a tensor of this module, or of one below, would not be found where the module moves to
void Module::require_movable() const {
  if (hooks_ && !hooks_->reparametrized.empty()) {
    throw Error(fmt::format("{} cannot be moved: its '{}' is computed by weight_norm() or its kin; remove that before",
                            type_name(), hooks_->reparametrized.begin()->first));
  }
  for (const auto* list : {&parameters_, &buffers_}) {
    for (const auto& [name, member, place] : *list) {
      if (place != Place::unknown) continue;
      throw Error(fmt::format(
          "{} cannot be moved: it registered its tensor '{}' by reference, which a move would leave behind; register "
          "the member: register_{}(\"{}\", &{}::member)",
          type_name(), name, list == &parameters_ ? "parameter" : "buffer", name, type_name()));
    }
  }
  for (const auto& entry : modules_) entry.second->require_movable();
}

/// Becomes the module that `other` was. Members of a derived class are still there: they move after this.
void Module::take(Module& other) {
  other.require_movable();
  for (const auto& entry : modules_) std::erase(entry.second->holders_, this);
  parameters_ = std::exchange(other.parameters_, {});
  buffers_ = std::exchange(other.buffers_, {});
  modules_ = std::exchange(other.modules_, {});
  hooks_ = std::exchange(other.hooks_, {});
  for (auto* list : {&parameters_, &buffers_}) {
    for (TensorEntry& entry : *list) {
      if (entry.place == Place::member)
        entry.member =
            reinterpret_cast<Tensor*>(reinterpret_cast<std::intptr_t>(entry.member) + distance(&other, this));
    }
  }
  for (const auto& entry : modules_)
    std::replace(entry.second->holders_.begin(), entry.second->holders_.end(), &other, this);
  // A holder that has moved waits for its members to follow.
  for (Module* holder : std::vector<Module*>(other.holders_)) {
    if (std::erase(holder->identity_->awaited, &other) == 0) continue;
    for (auto& entry : holder->modules_) {
      if (entry.second == &other) entry.second = this, holders_.push_back(holder);
    }
    std::erase(other.holders_, holder);
  }
  identity_->module = nullptr;
  identity_ = std::exchange(other.identity_, std::make_shared<ModuleIdentity>());
  other.identity_->module = &other;
  other.identity_->registered = !other.holders_.empty();
  identity_->module = this;
  identity_->registered = !holders_.empty();
  identity_->moved = true;
  identity_->awaited.clear();
  for (const auto& entry : modules_) identity_->awaited.push_back(entry.second);
}

void Module::claim(Module& member, Place place) {
  member.holders_.push_back(this);
  member.identity_->registered = true;
  if (place == Place::heap) return;
  ModuleIdentity& mine = *identity_;
  const std::ptrdiff_t at = distance(this, &member);
  if (mine.all_made == 0) mine.all_made = modules_made.load();
  if (at > 0 && at < kLargestObject) mine.reach = std::max<std::ptrdiff_t>(mine.reach, at + kGap);
}

void Module::warn_of_unregistered() const {
  for (const auto& entry : modules_) entry.second->warn_of_unregistered();
  ModuleIdentity& mine = *identity_;
  // A moved module's members were constructed elsewhere.
  if (mine.reach == 0 || mine.moved || std::exchange(mine.checked, true)) return;
  for (const auto& entry : unclaimed()) {
    const auto found = entry.lock();
    if (found == nullptr || found->registered || found->checked || found->number <= mine.number) continue;
    // Members are constructed after the base of their module and before the first of them is registered.
    if (found->number > mine.all_made || found->module == nullptr) continue;
    const std::ptrdiff_t at = distance(this, found->module);
    if (at <= 0 || at >= mine.reach) continue;
    found->checked = true;
    std::string member = found->module->repr();
    if (member.find('\n') != std::string::npos) member = found->module->type_name();
    const std::string text = fmt::format(
        "{}: its member {} is not registered, so it is neither trained nor moved nor saved; call register_module() for "
        "it in the constructor",
        type_name(), member);
    if (first_time(text)) log().warn("{}", text);
  }
}

}  // namespace etna::nn
