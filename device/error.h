#pragma once

#include <stdexcept>
#include <string>

/// The exceptions Etna throws. Every message is one sentence for the person who reads it: what was asked, what was
/// found, what to try.
namespace etna {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Sizes, ranks or dimensions that do not fit an op.
struct ShapeError : Error {
  using Error::Error;
};

/// A dtype an op does not take, or a mix it will not promote.
struct DtypeError : Error {
  using Error::Error;
};

/// A device that is unknown, absent, unusable, or mixed with another under ETNA_STRICT=1.
struct DeviceError : Error {
  using Error::Error;
};

/// The GPU stopped answering. Everything on it is gone; the process may go on using other devices.
struct DeviceLost : DeviceError {
  using DeviceError::DeviceError;
};

/// An allocation that did not fit, after cached memory was given back.
struct OutOfMemory : Error {
  using Error::Error;
};

/// A file that cannot be read or written, or whose bytes are not what its format promises.
struct FormatError : Error {
  using Error::Error;
};

/// Something that a captured step cannot replay: a value read on the host, a tensor moved, memory taken elsewhere.
struct CaptureError : Error {
  using Error::Error;
};

/// Autograd used where it cannot work: no gradient recorded, freed graph, saved tensor modified in place.
struct GradError : Error {
  using Error::Error;
};

}  // namespace etna
