#pragma once

/// Datasets, loaders, readers of files; corpora, vocabularies and batches of text.
#include <etna/data/batches.h>
#include <etna/data/corpus.h>
#include <etna/data/csv.h>
#include <etna/data/data_loader.h>
#include <etna/data/dataset.h>
#include <etna/data/prefetcher.h>
#include <etna/data/sampler.h>
#include <etna/data/text_file.h>
#include <etna/data/token_file.h>
#include <etna/data/transforms.h>
#include <etna/data/vision.h>
