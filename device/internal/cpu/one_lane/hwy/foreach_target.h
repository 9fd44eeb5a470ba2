#pragma once

// Without Highway there is one target: the file that includes this one is compiled once.
