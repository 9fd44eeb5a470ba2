#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include <etna/etna.h>

#include "cart_pole.h"

// Deep Q-learning (Mnih et al. 2015) with double Q-targets (van Hasselt et al. 2016) balances a pole on a cart.
//     dqn [DEVICE] [EPISODES]
namespace {

using namespace etna;

constexpr std::int64_t kBatch = 128, kMemory = 20000;
constexpr double kDiscount = 0.99;

struct Network : nn::Module {
  nn::Linear a{4, 64}, b{64, 64}, c{64, 2};
  Network() {
    register_module("a", a);
    register_module("b", b);
    register_module("c", c);
  }
  Tensor forward(const Tensor& x) const { return c(relu(b(relu(a(x))))); }
};

struct Move {
  CartPole::State from, to;
  int action = 0;
  bool fallen = false;
};

/// The last moves, from which batches are drawn.
class Memory {
 public:
  void add(const Move& move) {
    if (moves_.size() < kMemory)
      moves_.push_back(move);
    else
      moves_[next_] = move;
    next_ = (next_ + 1) % kMemory;
  }
  std::size_t size() const { return moves_.size(); }

  /// A batch as one row per move: from (4), to (4), action, 1 if the pole stands.
  Tensor draw(std::mt19937& random) const {
    std::vector<float> rows;
    for (std::int64_t i = 0; i < kBatch; ++i) {
      const Move& move = moves_[random() % moves_.size()];
      rows.insert(rows.end(), move.from.begin(), move.from.end());
      rows.insert(rows.end(), move.to.begin(), move.to.end());
      rows.push_back(static_cast<float>(move.action));
      rows.push_back(move.fallen ? 0.0F : 1.0F);
    }
    return from_vector(rows, {kBatch, 10});
  }

 private:
  std::vector<Move> moves_;
  std::size_t next_ = 0;
};

/// The better action by a copy of the network on the CPU: one state is too little work for a GPU.
int best(const Network& network, const CartPole::State& state) {
  NoGrad off;
  return argmax(network.forward(from_vector(std::vector<float>(state.begin(), state.end()), {1, 4})), 1).item<int>();
}

}  // namespace

int main(int argc, char** argv) try {
  const Device device = select_device(argc > 1 ? argv[1] : "auto");
  const int episodes = argc > 2 ? std::atoi(argv[2]) : 200;
  manual_seed(1);
  std::mt19937 random(1);
  Network network, target, player;
  network.to(device);
  target.to(device);
  target.load_state_dict(network.state_dict());
  player.load_state_dict(network.state_dict());
  optim::Adam adam(network.parameters(), {.lr = 1e-3});

  auto learn = capture(
      [&](const Tensor& rows) {
        const Tensor from = rows.slice(1, 0, 4), to = rows.slice(1, 4, 8), stands = rows.slice(1, 9, 10);
        const Tensor action = rows.slice(1, 8, 9).to(i64);
        Tensor wanted;
        {
          NoGrad off;
          const Tensor next = argmax(network.forward(to), 1, true);
          wanted = stands * target.forward(to).gather(1, next) * kDiscount + 1.0;
        }
        adam.zero_grad();
        Tensor loss = mse_loss(network.forward(from).gather(1, action), wanted);
        loss.backward();
        adam.step();
        return loss.detach();
      },
      {.device = device});

  CartPole game(1);
  Memory memory;
  std::vector<int> lengths;
  int moves = 0;
  for (int episode = 1; episode <= episodes; ++episode) {
    CartPole::State state = game.reset();
    int length = 0;
    for (bool over = false; !over; ++length, ++moves) {
      const double explore = std::max(0.02, 1 - moves / 2000.0);
      const bool at_random = static_cast<double>(random()) / 4294967296.0 < explore;
      const int action = at_random ? static_cast<int>(random() % 2) : best(player, state);
      const CartPole::Outcome outcome = game.step(action);
      memory.add({state, outcome.state, action, outcome.fallen});
      state = outcome.state;
      over = outcome.over;
      if (memory.size() < 500) continue;
      learn(memory.draw(random));
      if (moves % 20 == 0) player.load_state_dict(network.state_dict());
      if (moves % 250 == 0) target.load_state_dict(network.state_dict());
    }
    lengths.push_back(length);
    if (episode % 20 == 0) {
      const int last = std::accumulate(lengths.end() - 20, lengths.end(), 0) / 20;
      std::printf("episode %d: the pole stood for %d steps on average of the last 20\n", episode, last);
      std::fflush(stdout);
      if (last >= 180) return 0;
    }
  }
  std::printf("not learned: fewer than 180 steps on average after %d episodes\n", episodes);
  return 1;
} catch (const etna::Error& error) {
  std::fprintf(stderr, "dqn: %s\n", error.what());
  return 3;
}
