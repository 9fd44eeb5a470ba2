#pragma once

#include <etna/data/corpus.h>

#include "commands.h"

namespace wikitext {

/// --text beats --data beats $ETNA_DATA beats the embedded corpus; says on standard output which it took.
etna::data::Corpus find_corpus(const DataOptions& options);

}  // namespace wikitext
