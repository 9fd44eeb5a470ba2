#pragma once

#include <filesystem>
#include <string>

namespace etna::cli {

/// Why a file or a folder is no model, where that shows without reading it: a pipe or a device in its place, a text, an
/// adapter, a folder with models in it. Empty where it may be one.
std::string why_no_model(const std::filesystem::path& path);

/// Refuses pipes and devices, which would not end. @throws FormatError
void require_plain_files(const std::filesystem::path& path);

}  // namespace etna::cli
