// The reference executor finds each planted error of groups in its step and group.
import { describePlantedGroups } from './planted.js';

describePlantedGroups();
