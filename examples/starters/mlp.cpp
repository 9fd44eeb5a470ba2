#include <cstdio>
#include <filesystem>
#include <numbers>

#include <etna/etna.h>

// A multilayer perceptron with early stopping and checkpoints. A run that was stopped and resumed ends with the same
// bits as one that was not.
//     mlp [DEVICE] [FOLDER]     checkpoints and metrics go to FOLDER/whole and FOLDER/resumed
using namespace etna;
namespace fs = std::filesystem;

// Noisy points on the three arms of a spiral: x [count, 2], and the number of the arm [count].
data::TensorDataset spiral(std::int64_t count) {
  const Tensor arm = randint(0, 3, {count}), radius = rand({count}) * 0.9 + 0.1;
  const Tensor angle = radius * 5 + arm * (2 * std::numbers::pi / 3) + randn({count}) * 0.25;
  return {stack({radius * cos(angle), radius * sin(angle)}, 1), arm};
}

struct Data {
  data::TensorDataset train = spiral(1000), valid = spiral(1000), test = spiral(1000);
};

struct Net : nn::Sequential {
  explicit Net(std::uint64_t seed) {
    manual_seed(seed);
    add<nn::Linear>(2, 64).add<nn::ReLU>().add<nn::Dropout>(0.1);
    add<nn::Linear>(64, 64).add<nn::ReLU>().add<nn::Linear>(64, 3);
  }
};

// Trains for so many epochs, or until the validation loss has not improved for 6.
training::FitResult train(Net& net, const Data& data, Device device, std::int64_t epochs, const fs::path& folder,
                          training::ExistingRun existing) {
  net.to(device);
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-2});
  data::DataLoader loader(data.train, {.batch_size = 100, .shuffle = true, .seed = 1, .device = device});
  data::DataLoader valid(data.valid, {.batch_size = 250, .device = device});
  auto loss = [&](const Tensor& x, const Tensor& y) { return cross_entropy(net(x), y); };
  const training::FitOptions options = {
      .epochs = epochs, .device = device, .folder = folder, .existing = existing, .patience = 6};
  return training::fit(net, loss, optimizer, loader, options, &valid);
}

double accuracy(Net& net, const data::TensorDataset& points, Device device) {
  NoGrad off;
  net.eval();
  const Tensor guess = argmax(net(points.data().to(device)), 1);
  return mean(eq(guess, points.target().to(device)).to(f32)).item<double>();
}

int main(int argc, char** argv) try {
  const Device device = select_device(argc > 1 ? argv[1] : "auto");
  const fs::path folder = argc > 2 ? fs::path(argv[2]) : fs::temp_directory_path() / "etna_mlp";
  manual_seed(1);
  const Data data;

  Net whole(2);
  const auto result = train(whole, data, device, 100, folder / "whole", training::ExistingRun::overwrite);
  std::printf("early stopping after epoch %d\n", static_cast<int>(result.epochs));

  // The same run ends after 5 epochs; another network, with other weights, goes on from its checkpoint.
  Net first(2);
  train(first, data, device, 5, folder / "resumed", training::ExistingRun::overwrite);
  Net second(3);
  train(second, data, device, 100, folder / "resumed", training::ExistingRun::resume);
  bool same = true;
  for (const auto& [name, tensor] : whole.state_dict()) same = same && equal(tensor, second.state_dict().at(name));
  std::printf("the resumed run has %s\n", same ? "the same bits" : "OTHER BITS");

  load(training::find_checkpoints(folder / "whole" / "checkpoints").best, {{"model", whole}});
  const double right = accuracy(whole, data.test, device);
  std::printf("best validation loss %.4f; %.1f %% of the test points right\n", *result.valid_loss, 100 * right);
  return same && result.epochs < 100 && right > 0.95 ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "mlp: %s\n", error.what());
  return 3;
}
