#pragma once

#include <memory>
#include <string>
#include <vector>

#include <etna/tensor/capture.h>
#include <etna/tensor/recording.h>

namespace etna {

/// A recorded step: the host's work, the device's work, and the input and output tensors.
class Program {
 public:
  /// Ends the recording.
  /// @param inputs the function's arguments @param outputs its results, detached
  /// @throws OutOfMemory if the plan does not fit
  Program(recording::Session& session, TensorList inputs, TensorList outputs, ProgramReport report);

  /// Why a replay would no longer do what the function does; empty if it would.
  std::string stale() const;

  /// Runs the program for the recorded step itself; the host's work is already done.
  void run_first();
  /// Runs one step. @param arguments of the same number, shapes and dtypes as at recording
  void replay(const TensorList& arguments);

  const TensorList& outputs() const { return outputs_; }
  const ProgramReport& report() const { return report_; }
  void set_capture_ms(double ms) { report_.capture_ms = ms; }

 private:
  std::unique_ptr<recording::HostSteps> host_;
  std::vector<recording::External> externals_;
  std::vector<recording::LeafGradient> gradients_;
  TensorList inputs_, outputs_;
  ProgramReport report_;
  std::unique_ptr<recording::Replay> replay_;
};

namespace recording {
/// Copies an argument's values into a program's input; counted as a transfer if they cross the bus.
void copy_argument(const Tensor& argument, const Tensor& input);
}  // namespace recording

}  // namespace etna
