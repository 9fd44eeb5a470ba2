#include <conformance/samples.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/fft/fft.h>

namespace etna::conformance {

std::vector<Sample> samples_in_fft() {
  const auto last = [](const TensorList& in) { return fft::fft(in[0]); };
  const auto first = [](const TensorList& in) { return fft::ifft(in[0], {}, 0); };
  const auto frames = [](const TensorList& in) { return fft::stft(in[0], 4); };
  return {
      Sample("fft", "a power of two").in({3, 8, 2}).calls(last),
      Sample("fft", "another size, columns").in({6, 3, 2}).calls(first),
      Sample("fft", "prime").in({131, 2}).calls(last).looser(4),
      Sample("fft", "the longest of a kernel").in({2048, 2}).in_dtypes({f32}).calls(last).gradients(Gradients::none),
      Sample("fft", "two dispatches").in({2, 4096, 2}).in_dtypes({f32}).calls(last).gradients(Gradients::none),
      Sample("fft", "two dispatches, columns")
          .in({2057, 2, 2})
          .in_dtypes({f32, f16})
          .calls(first)
          .gradients(Gradients::none),
      Sample("fft", "one").in({5, 1, 2}).calls(last),
      Sample("fft", "nothing").in({0, 4, 2}).calls(last),
      Sample("stft", "frames").composed().in({13}).in_dtypes({f64, f32}).calls(frames),
      Sample("stft", "nothing").composed().in({0, 13}).in_dtypes({f64, f32}).calls(frames),
  };
}

}  // namespace etna::conformance
