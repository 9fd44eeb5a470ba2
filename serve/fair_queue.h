#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <utility>

namespace etna::serve {

/// Waiting work of several clients. Clients take turns, however much each has queued; of one client the lowest priority
/// value goes first, and among equals the oldest. Not thread-safe.
template <typename T>
class FairQueue {
 public:
  void push(T item, const std::string& client, std::int64_t priority = 0) {
    auto found = std::find_if(clients_.begin(), clients_.end(), [&](const Client& c) { return c.name == client; });
    if (found == clients_.end()) found = clients_.insert(clients_.end(), Client{client, {}});
    auto at = found->items.end();
    while (at != found->items.begin() && std::prev(at)->first > priority) --at;
    found->items.insert(at, {priority, std::move(item)});
    ++size_;
  }

  /// The next one; nullopt where nothing waits.
  std::optional<T> pop() {
    if (clients_.empty()) return std::nullopt;
    Client& client = clients_.front();
    T item = std::move(client.items.front().second);
    client.items.pop_front();
    --size_;
    // The client's next turn comes after everybody else's.
    if (client.items.empty())
      clients_.pop_front();
    else
      clients_.splice(clients_.end(), clients_, clients_.begin());
    return item;
  }

  /// Takes out what a condition holds for. @param out called with each
  template <typename Condition, typename Out>
  void remove_if(const Condition& condition, const Out& out) {
    for (auto client = clients_.begin(); client != clients_.end();) {
      std::deque<std::pair<std::int64_t, T>> kept;
      for (auto& entry : client->items) {
        if (condition(entry.second))
          out(std::move(entry.second)), --size_;
        else
          kept.push_back(std::move(entry));
      }
      client->items = std::move(kept);
      client = client->items.empty() ? clients_.erase(client) : std::next(client);
    }
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  struct Client {
    std::string name;
    std::deque<std::pair<std::int64_t, T>> items;
  };
  std::list<Client> clients_;
  std::size_t size_ = 0;
};

}  // namespace etna::serve
