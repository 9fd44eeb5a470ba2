#pragma once

#include <memory>
#include <string>
#include <vector>

#include <etna/tensor/capture.h>
#include <etna/tensor/recording.h>

namespace etna {

/// A recorded step: what the host does, what the device runs, and the tensors that go in and come out.
class Program {
 public:
  /// Ends the recording.
  /// @param inputs what the function was called with @param outputs what it returned, off the tape
  /// @throws OutOfMemory where the plan does not fit
  Program(recording::Session& session, TensorList inputs, TensorList outputs, ProgramReport report);

  /// Why it would not do what the function does now; empty where it would.
  std::string stale() const;

  /// Runs what was recorded, for the step that recording was itself: the host has done its part.
  void run_first();
  /// One step. @param arguments as those it was recorded with, in shape, dtype and number
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
/// Copies an argument's values into a program's input; counted as a transfer where they cross the bus.
void copy_argument(const Tensor& argument, const Tensor& input);
}  // namespace recording

}  // namespace etna
