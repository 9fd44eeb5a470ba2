#pragma once

#include <etna/data/corpus.h>

#include "commands.h"

namespace wikitext {

/// True if no text is named, so that the embedded corpus is taken.
bool is_embedded(const DataOptions& options);

/// Loads the corpus from the first of --text, --data, $ETNA_DATA and the embedded corpus. Prints the choice to standard
/// output.
etna::data::Corpus find_corpus(const DataOptions& options);

}  // namespace wikitext
