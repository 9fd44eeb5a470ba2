#pragma once

#include <stdexcept>
#include <string>

/// The exceptions that Etna throws. Every message is one sentence for the user: what was asked, what was found, what to
/// try.
namespace etna {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Sizes, ranks or dimensions that do not fit an op.
struct ShapeError : Error {
  using Error::Error;
};

/// An index outside the dimension that it selects from. The CPU throws it at the call. A GPU finds it while a kernel
/// runs, so the next call that waits for the device throws it.
struct IndexError : ShapeError {
  using ShapeError::ShapeError;
};

/// A dtype an op does not take, or a combination that it does not promote.
struct DtypeError : Error {
  using Error::Error;
};

/// A device that is unknown, absent, unusable, or mixed with another under ETNA_STRICT=1.
struct DeviceError : Error {
  using Error::Error;
};

/// The GPU stopped responding. Its memory is lost; the process may continue on other devices.
struct DeviceLost : DeviceError {
  using DeviceError::DeviceError;
};

/// An allocation failed even after cached memory was released.
struct OutOfMemory : Error {
  using Error::Error;
};

/// A file that cannot be read or written, or whose bytes are not what its format promises.
struct FormatError : Error {
  using Error::Error;
};

/// Something that a captured step cannot replay: a value read on the host, a tensor moved to another device, memory
/// allocated outside the capture.
struct CaptureError : Error {
  using Error::Error;
};

/// Autograd used where it cannot work: no gradient recorded, a freed graph, a saved tensor modified in place.
struct GradError : Error {
  using Error::Error;
};

}  // namespace etna
