// Programs for node get the process's environment variables.
Module['preRun'] = () => Object.assign(ENV, process.env);
